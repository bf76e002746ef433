package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// switched is the source of a file in which a variable turns mutants on. So many mutants need one
// build. A function that mutants change is there once more for each: the original calls that copy
// instead of doing its own work, if the variable says so.
type switched struct {
	source  []byte
	changes map[int][]variant // by the number of the declaration in the file
	names   map[string]bool   // of the mutants
}

// variant is what one mutant makes of a function.
type variant struct {
	number int // of the mutant
	text   string
}

// switchName is the variable that has the number of the mutant which is on.
const switchName = "simulatedMutant"

// switchFile is the source of the file that declares the variable in a package.
func switchFile(name, variable string) []byte {
	return fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", name, switchName, variable)
}

// add adds a mutant, and reports whether it can: one that changes what is no function needs a build
// of its own, and so does one in a function that recovers, which has to be the deferred one itself.
func (s *switched) add(m mutant, number int) bool {
	after := bytes.Replace(s.source, []byte(m.old), []byte(m.new), 1)
	was, now := functions(s.source), functions(after)
	if len(was) == 0 || len(was) != len(now) || outside(s.source, was) != outside(after, now) {
		return false
	}
	found := make(map[int]variant)
	for i := range was {
		old, new := was[i].text(s.source), now[i].text(after)
		if old == new {
			continue
		}
		if strings.Contains(old, "recover()") {
			return false
		}
		name := now[i].Name
		at := int(name.Pos()) - 1 - now[i].start()
		found[i] = variant{number, new[:at] + copyName(name.Name, number) + new[at+len(name.Name):]}
	}
	for i, c := range found {
		s.changes[i] = append(s.changes[i], c)
	}
	if len(found) > 0 {
		s.names[m.name] = true
	}
	return len(found) > 0
}

func copyName(name string, number int) string { return fmt.Sprintf("%s__%d", name, number) }

// text returns the file with all mutants in it.
func (s *switched) text() []byte {
	var out bytes.Buffer
	last := 0
	for i, f := range functions(s.source) {
		changes := s.changes[i]
		if len(changes) == 0 {
			continue
		}
		out.Write(s.source[last:f.start()])
		out.WriteString(f.dispatching(s.source, changes))
		for _, c := range changes {
			out.WriteString("\n\n" + c.text)
		}
		last = f.end()
	}
	out.Write(s.source[last:])
	return out.Bytes()
}

// function is one that a file declares.
type function struct{ *ast.FuncDecl }

// functions returns those of a file; none if it cannot be parsed.
func functions(source []byte) (all []function) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, decl := range file.Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Body != nil {
			all = append(all, function{f})
		}
	}
	return all
}

func (f function) start() int { return int(f.FuncDecl.Type.Pos()) - 1 }
func (f function) end() int   { return int(f.End()) - 1 }

func (f function) text(source []byte) string { return string(source[f.start():f.end()]) }

// outside returns what is in no function.
func outside(source []byte, all []function) string {
	rest := slices.Clone(source)
	for _, f := range slices.Backward(all) {
		rest = slices.Delete(rest, f.start(), f.end())
	}
	return string(rest)
}

// dispatching returns a function that calls the copy of the mutant that is on.
func (f function) dispatching(source []byte, changes []variant) string {
	part := func(n ast.Node) string { return string(source[n.Pos()-1 : n.End()-1]) }
	names := func(fields *ast.FieldList, prefix string) (all, declared []string) {
		if fields == nil {
			return nil, nil
		}
		for _, field := range fields.List {
			dots := ""
			if _, is := field.Type.(*ast.Ellipsis); is {
				dots = "..."
			}
			own := []string{""}
			if len(field.Names) > 0 {
				own = nil
				for _, id := range field.Names {
					own = append(own, id.Name)
				}
			}
			for _, name := range own {
				if name == "" || name == "_" {
					name = fmt.Sprintf("%s%d", prefix, len(all))
				}
				all = append(all, name+dots)
				declared = append(declared, name+" "+part(field.Type))
			}
		}
		return all, declared
	}
	receiver, declaredReceiver := names(f.Recv, "receiver__")
	arguments, parameters := names(f.FuncDecl.Type.Params, "parameter__")
	types := ""
	if list := f.FuncDecl.Type.TypeParams; list != nil {
		types = string(source[list.Pos()-1 : list.End()-1])
	}
	var out strings.Builder
	out.WriteString("func ")
	callee := ""
	if f.Recv != nil {
		fmt.Fprintf(&out, "(%s) ", declaredReceiver[0])
		callee = receiver[0] + "."
	}
	fmt.Fprintf(&out, "%s%s(%s) ", f.Name.Name, types, strings.Join(parameters, ", "))
	results := f.FuncDecl.Type.Results
	if results != nil {
		out.WriteString(part(results) + " ")
	}
	out.WriteString("{\n")
	for _, c := range changes {
		call := fmt.Sprintf("%s%s(%s)", callee, copyName(f.Name.Name, c.number), strings.Join(arguments, ", "))
		if results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		fmt.Fprintf(&out, "\tif %s == %d { %s }\n", switchName, c.number, call)
	}
	out.Write(source[f.Body.Lbrace : f.Body.Rbrace-1])
	out.WriteString("}")
	return out.String()
}

// packageName returns that of a file.
func packageName(source []byte) string {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return file.Name.Name
}

// switchPath is where the variable of the package of a file is declared.
func switchPath(file string) string { return filepath.Join(filepath.Dir(file), "simulated_mutant.go") }
