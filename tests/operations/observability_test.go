package operations

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/groups"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// The files under observability, and docs/operations.md. TestObservability, in a file of its own,
// tries them on a Prometheus.

const (
	rulesFile   = "../../observability/redlatch.rules.yml"
	boardFile   = "../../observability/redlatch.board.json"
	runbookFile = "../../docs/operations.md"
	metricsFile = "../../docs/observability.md"
)

// read returns the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	text := check.Value(os.ReadFile(file)).OK(t)
	return string(text)
}

// rule is a recording rule or an alert.
type rule struct {
	alert, record, expr, whole string
}

// rules returns what the file of rules has.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	for _, part := range regexp.MustCompile(`(?m)^      - `).Split(read(t, rulesFile), -1)[1:] {
		r := rule{whole: part}
		field := func(name string) string {
			if m := regexp.MustCompile(`(?ms)^\s*` + name + `: (?:\|\n)?(.*?)(?:^        \w|^      #|^$|\z)`).FindStringSubmatch(part); m != nil {
				return strings.TrimSpace(m[1])
			}
			return ""
		}
		r.alert, r.record, r.expr = field("alert"), field("record"), field("expr")
		check.Must(t, (r.alert == "") != (r.record == "") && r.expr != "", "a rule cannot be read:\n%s", part)
		all = append(all, r)
	}
	return all
}

// board is what is asserted of a Grafana board.
type board struct {
	Editable   *bool
	Title, UID string
	Templating struct {
		List []struct{ Name, Type, Query any }
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  source
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		Expr, LegendFormat string
		Datasource         source
	}
	GridPos struct{ X, Y, W, H int }
}

type source struct{ Type, UID string }

func readBoard(t *testing.T) (b board) {
	t.Helper()
	check.OK(t, "Unmarshal", json.Unmarshal([]byte(read(t, boardFile)), &b))
	return b
}

// TestBoard: what linters of boards ask for.
func TestBoard(t *testing.T) {
	t.Parallel()
	b := readBoard(t)
	if b.Editable == nil || *b.Editable || b.Title == "" || b.UID == "" {
		t.Errorf("the board %q (%s) has to have a title and an id, and not to be editable", b.Title, b.UID)
	}
	variables := make(map[any]any)
	for _, v := range b.Templating.List {
		variables[v.Name] = v.Type
	}
	for name, is := range map[string]string{"datasource": "datasource", "job": "query", "instance": "query", "kind": "query"} {
		check.That(t, variables[name] == is, "the variable %s is a %v, want a %s", name, variables[name], is)
	}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	counters := regexp.MustCompile(`\w+_(total|count|sum|bucket)\{`)
	for _, p := range b.Panels {
		check.That(t, !ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		check.That(t, p.Title != "", "panel %d has no title", p.ID)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("the panel %q covers %q, or ends beyond the board", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource != (source{"prometheus", "${datasource}"}) {
			t.Errorf("the panel %q lacks a description, a unit, a query or the templated data source: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			check.That(t, target.LegendFormat != "" && target.Datasource == p.Datasource, "a query of %q lacks a legend or the templated data source", p.Title)
			selectors := regexp.MustCompile(`\{[^}]*\}`).FindAllString(target.Expr, -1)
			if len(selectors) == 0 || slices.ContainsFunc(selectors, func(s string) bool {
				return !strings.Contains(s, `job=~"$job"`) || !strings.Contains(s, `instance=~"$instance"`)
			}) {
				t.Errorf("a query of %q does not select by job and instance: %s", p.Title, target.Expr)
			}
			for _, at := range counters.FindAllStringIndex(target.Expr, -1) {
				before := target.Expr[:at[0]]
				if !strings.HasSuffix(before, "rate(") && !strings.HasSuffix(before, "increase(") {
					t.Errorf("a query of %q uses a counter without rate or increase: %s", p.Title, target.Expr)
				}
			}
			if strings.Contains(target.Expr, "[") != strings.Contains(target.Expr, "[$__rate_interval]") {
				t.Errorf("a query of %q has an interval of its own: %s", p.Title, target.Expr)
			}
		}
	}
	for alert := range alerts(t) {
		check.That(t, strings.Contains(read(t, boardFile), "Alert: "+alert), "no panel shows what the alert %s is about", alert)
	}
}

// alerts returns the alerts, by name.
func alerts(t *testing.T) map[string]rule {
	t.Helper()
	byName := make(map[string]rule)
	for _, r := range rules(t) {
		if r.alert != "" {
			byName[r.alert] = r
		}
	}
	return byName
}

// TestAlerts: each alert has what an on-call engineer needs, tests for both cases, and the
// classification of outcomes is that of the library.
func TestAlerts(t *testing.T) {
	t.Parallel()
	all, units := alerts(t), read(t, strings.Replace(rulesFile, ".yml", ".test.yml", 1))
	check.That(t, len(all) >= 9, "%d alerts, want 9 at least", len(all))
	for name, r := range all {
		url := "https://github.com/redlatch/redlatch/blob/main/docs/operations.md#" + strings.ToLower(name)
		for _, want := range []string{"severity: ", "summary: ", "description: ", "runbook_url: " + url} {
			check.That(t, strings.Contains(r.whole, want), "the alert %s has no %s", name, want)
		}
		for _, want := range []string{"- name: " + name + " fires ", "- name: " + name + " stays silent "} {
			check.That(t, strings.Contains(units, want), "there is no unit test %q", want)
		}
	}
	var harmless []string
	for _, o := range groups.Outcomes {
		if o := redlatch.Outcome(o); !o.Failed() && o != redlatch.OutcomeGranted {
			harmless = append(harmless, string(o))
		}
	}
	text := read(t, rulesFile) + read(t, boardFile)
	for _, m := range regexp.MustCompile(`outcome!~\\?"([^"\\]*)`).FindAllStringSubmatch(text, -1) {
		got := slices.DeleteFunc(strings.Split(m[1], "|"), func(o string) bool { return o == "granted" })
		check.That(t, slices.Equal(got, harmless), "a query leaves out the outcomes %q, want %q, which Outcome.Failed says are no failures", got, harmless)
	}
}

// TestAlertOnLosses: the alert fires for each reason of a loss but those that an operator or the
// program meant. The table of labels and the runbook name every reason.
func TestAlertOnLosses(t *testing.T) {
	t.Parallel()
	meant := []redlatch.LossReason{redlatch.LossForced, redlatch.LossMaxHold, redlatch.LossNotRenewed, redlatch.LossClosed}
	selector := regexp.MustCompile(`reason=~"([^"]*)"`).FindStringSubmatch(alerts(t)["RedlatchLeaseLost"].expr)
	check.Must(t, selector != nil, "RedlatchLeaseLost does not select by reason")
	fires := strings.Split(selector[1], "|")
	_, runbook, _ := strings.Cut(read(t, runbookFile), "### RedlatchLeaseLost\n")
	runbook, _, _ = strings.Cut(runbook, "\n### ")
	_, labels, _ := strings.Cut(read(t, metricsFile), "\n| reason |")
	labels, _, _ = strings.Cut(labels, "\n")
	for _, r := range groups.Reasons {
		check.That(t, slices.Contains(fires, r) != slices.Contains(meant, redlatch.LossReason(r)), "RedlatchLeaseLost selects %q, which for %q is wrong", fires, r)
		for where, text := range map[string]string{runbookFile: runbook, metricsFile: labels} {
			check.That(t, strings.Contains(text, "`"+r+"`"), "%s does not say what the reason %q is", where, r)
		}
	}
}

// TestEveryMetricIsDocumented: the page of metrics has each of them, and no other.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	m := metered(t)
	m.prom.Conn(wire.Dial(t, redistest.Start(t).Addr()))
	page := read(t, metricsFile)
	exported := m.gather(t, "redlatchprom")
	for name := range exported {
		check.That(t, strings.Contains(page, "| `"+name+"` |"), "%s does not list %s", metricsFile, name)
	}
	suffix := regexp.MustCompile(`_(bucket|count|sum)$`)
	for _, file := range []string{metricsFile, rulesFile, boardFile, runbookFile} {
		for _, name := range regexp.MustCompile(`\bredlatch_[a-z_]+`).FindAllString(read(t, file), -1) {
			if exported[name] == nil && exported[suffix.ReplaceAllString(name, "")] == nil && !strings.Contains(read(t, rulesFile), ":"+name+":") {
				t.Errorf("%s names %s, which is not exported", file, name)
			}
		}
	}
}

// TestRunbook: the link of every alert leads to a section, and so does every line of the doctor that
// is not ok.
func TestRunbook(t *testing.T) {
	t.Parallel()
	sections := make(map[string]string)
	for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(read(t, runbookFile), -1) {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	for name := range alerts(t) {
		for _, want := range []string{"**Means**", "**See**", "**Do**"} {
			check.That(t, strings.Contains(sections[name], want), "the section %s has no %s", name, want)
		}
	}
	lines := doctorLines(t)
	check.That(t, len(lines) >= 15, "%d checks of the doctor were found, want 15 at least: %v", len(lines), lines)
	for about, levels := range lines {
		text, ok := sections["doctor: "+about]
		check.That(t, ok, "there is no section %q", "doctor: "+about)
		for level := range levels {
			if level != "OK" && !strings.Contains(text, "- **"+strings.ToLower(level)+"**") {
				t.Errorf("the section %q does not say what %s means", "doctor: "+about, level)
			}
		}
	}
	for _, title := range slices.Sorted(maps.Keys(sections)) {
		if check, ok := strings.CutPrefix(title, "doctor: "); ok && lines[check] == nil {
			t.Errorf("the doctor has no check %q", check)
		}
	}
}

// doctorLines returns the checks that the doctor reports on, and the levels that it may report. It
// reads them from its source: each Finding has a check, and the levels that are set after it are its
// own.
func doctorLines(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := check.Value(filepath.Glob("../../cmd/redlatch/internal/doctor/*.go")).OK(t)
	lines := make(map[string]map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed := check.Value(parser.ParseFile(token.NewFileSet(), file, nil, 0)).OK(t)
		check := ""
		level := func(e ast.Expr) {
			if id, ok := e.(*ast.Ident); ok && check != "" {
				if lines[check] == nil {
					lines[check] = make(map[string]bool)
				}
				lines[check][id.Name] = true
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				check = ""
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Finding" && len(n.Elts) == 5 {
					check = text(n.Elts[1])
					level(n.Elts[2])
				}
				if n.Type == nil && len(n.Elts) == 4 { // a line of a table, as of what --probe tries
					check = text(n.Elts[0])
					if command, _, ok := strings.Cut(check, " "); ok && command == strings.ToUpper(command) {
						check = command
					}
					level(n.Elts[1])
					level(n.Elts[2])
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Level" && i < len(n.Rhs) {
						level(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "worse" {
					level(ast.NewIdent("Warning"))
				}
			}
			return true
		})
	}
	return lines
}

// text returns a text of the source: of one that goes on with a value, its beginning. It returns ""
// for any other expression.
func text(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok {
		e = sum.X
	}
	if lit, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return strings.TrimSpace(s)
		}
	}
	return ""
}
