package kinds

import (
	"testing"

	"github.com/redlatch/redlatch/tests/internal/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }
