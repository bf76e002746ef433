package redlatchvet

import (
	"go/types"
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/packages"
)

func TestAnalyzer(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), Analyzer, "a")
}

// TestLibraryHasTheseAcquisitions: what stands for the library in testdata, and the library, may
// drift apart, and a lease of a new kind, or a renamed one, would not be looked at.
func TestLibraryHasTheseAcquisitions(t *testing.T) {
	t.Parallel()
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedTypes | packages.NeedImports | packages.NeedName}, library)
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatalf("load %s: %v, %+v", library, err, loaded)
	}
	var got []string
	scope := loaded[0].Types.Scope()
	for _, name := range scope.Names() {
		methods := types.NewMethodSet(types.NewPointer(scope.Lookup(name).Type()))
		for method := range methods.Methods() {
			if f, ok := method.Obj().(*types.Func); ok && f.Exported() {
				if call := acquirer(f); call != "" {
					got = append(got, call)
				}
			}
		}
	}
	want := []string{
		"Client.Adopt",
		"Election.Campaign", "Election.TryCampaign", "MultiMutex.Lock", "MultiMutex.TryLock", "Mutex.Lock", "Mutex.TakeByForce", "Mutex.TryLock",
		"RWMutex.Downgrade", "RWMutex.Lock", "RWMutex.RLock", "RWMutex.TryLock", "RWMutex.TryRLock",
		"ReentrantMutex.Lock", "ReentrantMutex.TryLock", "Semaphore.Acquire", "Semaphore.TryAcquire", "Semaphore.TryAcquireAll",
		"SlotPool.Acquire", "SlotPool.TryAcquire",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the library has the acquisitions %q, want %q", got, want)
	}
	for method := range types.NewMethodSet(types.NewPointer(scope.Lookup("Lease").Type())).Methods() {
		switch name := method.Obj().Name(); {
		case !method.Obj().Exported() || name == "Release" || name == "Detach" || name == "Slot":
		case !harmless[name]:
			t.Errorf("Lease.%s counts as a release", name)
		}
	}
}
