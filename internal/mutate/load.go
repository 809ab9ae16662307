package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pkg is a package to be mutated: its files without tests, and what their names and expressions are.
type pkg struct {
	name  string // as it is called here: the last element of its path
	path  string
	dir   string
	fset  *token.FileSet
	files []*file
	types *types.Package
	info  *types.Info
}

type file struct {
	path   string
	text   []byte
	syntax *ast.File
}

// listed is what `go list` says of a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load reads and checks the types of the packages that the patterns name, in the order of go list.
func load(patterns []string) ([]*pkg, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=Dir,ImportPath,Export,GoFiles,DepOnly", "--"}, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	exports := map[string]string{}
	var named []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			named = append(named, l)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var pkgs []*pkg
	for _, l := range named {
		p, err := check(fset, l, imports)
		if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
}

func check(fset *token.FileSet, l listed, imports types.Importer) (*pkg, error) {
	p := &pkg{name: l.ImportPath[strings.LastIndexByte(l.ImportPath, '/')+1:], path: l.ImportPath, dir: l.Dir, fset: fset}
	var syntax []*ast.File
	for _, name := range l.GoFiles {
		f := &file{path: filepath.Join(l.Dir, name)}
		var err error
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.syntax, err = parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
		syntax = append(syntax, f.syntax)
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}
	var err error
	p.types, err = (&types.Config{Importer: imports}).Check(l.ImportPath, fset, syntax, p.info)
	return p, err
}

// offset is the place of a position in its file.
func (p *pkg) offset(pos token.Pos) int { return p.fset.Position(pos).Offset }

// source is the text of a node.
func (p *pkg) source(f *file, n ast.Node) string {
	return string(f.text[p.offset(n.Pos()):p.offset(n.End())])
}
