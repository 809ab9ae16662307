package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// API.md names the test of each exported name. These tests keep it complete and true.

// exportedNames lists what the files of a package export: functions, types, constants, variables, methods and fields of exported
// types, as Name or Type.Name.
func exportedNames(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			exportedOf(d, names)
		}
	}
	return names, nil
}

func exportedOf(d ast.Decl, names map[string]bool) {
	add := func(owner string, id *ast.Ident) {
		if id.IsExported() {
			names[owner+id.Name] = true
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch owner := receiver(d); {
		case owner == "":
			add("", d.Name)
		case ast.IsExported(owner):
			add(owner+".", d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					add("", id)
				}
			case *ast.TypeSpec:
				add("", s.Name)
				st, ok := s.Type.(*ast.StructType)
				if !ok || !s.Name.IsExported() {
					continue
				}
				for _, field := range st.Fields.List {
					for _, id := range field.Names {
						add(s.Name.Name+".", id)
					}
				}
			}
		}
	}
}

// receiver names the type that a method belongs to; empty: it is a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch of := t.(type) { // with type parameters
	case *ast.IndexExpr:
		t = of.X
	case *ast.IndexListExpr:
		t = of.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

var (
	apiRow  = regexp.MustCompile(`^\| (.+?) \| (.+) \|$`)
	apiName = regexp.MustCompile(`^[A-Z]\w*(?:\.[A-Z]\w*)?$`)
)

// checkAPI gives what is wrong with the page: names that it leaves out or that are not there, names without a test, tests that are
// not there.
func (tr *tree) checkAPI(page string, exported map[string]bool) (wrong []string, err error) {
	listed := map[string]bool{}
	for i, l := range strings.Split(page, "\n") {
		m := apiRow.FindStringSubmatch(l)
		if m == nil || strings.HasPrefix(l, "|--") || strings.HasPrefix(l, "| name ") {
			continue
		}
		say := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("API.md:%d: ", i+1)+fmt.Sprintf(format, args...))
		}
		for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
			switch name := q[1]; {
			case !apiName.MatchString(name):
				say("%q is not of the form Name or Type.Name", name)
			case !exported[name]:
				say("%s is not exported", name)
			case listed[name]:
				say("%s is listed twice", name)
			default:
				listed[name] = true
			}
		}
		proofs := 0
		for _, q := range quoted.FindAllStringSubmatch(m[2], -1) {
			ref := reference.FindStringSubmatch(q[1])
			if ref == nil {
				say("%q is not of the form `package: TestName`", q[1])
				continue
			}
			proofs++
			ok, err := tr.has(ref[1], ref[2])
			if err != nil {
				return nil, err
			}
			if !ok {
				say("package %s has no %s", ref[1], ref[2])
			}
		}
		if proofs == 0 {
			say("no test: %.60s", l)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if !listed[name] {
			wrong = append(wrong, "API.md leaves out "+name)
		}
	}
	return wrong, nil
}

func TestEveryExportedNameHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "API.md"))
	require.NoError(t, err)
	exported, err := exportedNames(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.True(t, exported["Dial"] && exported["Consumer.Commit"] && exported["ConsumerOptions.Weight"] && exported["ErrClaimLost"])
	wrong, err := openTree(t).checkAPI(string(page), exported)
	require.NoError(t, err)
	for _, w := range wrong {
		t.Error(w)
	}
}

// TestAnAPIPageThatIsNotTrueIsFound plants each mistake into a page that is right.
func TestAnAPIPageThatIsNotTrueIsFound(t *testing.T) {
	const head = "| name | test |\n|---|---|\n"
	exported := map[string]bool{"Dial": true, "Consumer.Commit": true}
	tr := openTree(t)
	for _, c := range []struct{ name, page, says string }{
		{"nothing", "| `Dial` `Consumer.Commit` | `house: TestTheModuleKeepsTheRules` |", ""},
		{"a name left out", "| `Dial` | `house: TestTheModuleKeepsTheRules` |", "leaves out Consumer.Commit"},
		{"a name that is not there", "| `Dial` `Consumer.Commit` `Redial` | `house: TestTheModuleKeepsTheRules` |", "Redial is not exported"},
		{"a name twice", "| `Dial` `Consumer.Commit` `Dial` | `house: TestTheModuleKeepsTheRules` |", "listed twice"},
		{"no test", "| `Dial` `Consumer.Commit` | later |", "no test"},
		{"no such test", "| `Dial` `Consumer.Commit` | `house: TestNone` |", "has no TestNone"},
		{"another form", "| `Dial()` `Dial` `Consumer.Commit` | `house: TestTheModuleKeepsTheRules` |", "not of the form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong, err := tr.checkAPI(head+c.page, exported)
			require.NoError(t, err)
			if c.says == "" {
				assert.Empty(t, wrong)
				return
			}
			assert.True(t, slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, c.says) }), "%q", wrong)
		})
	}
}
