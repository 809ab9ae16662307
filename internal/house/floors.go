package house

import (
	"cmp"
	"go/ast"
	"strings"
)

// A floor may import what is on the floors below it.
const (
	ground  = 0 // names of rules: anybody's
	floor1  = 1 // pure
	floor2  = 2 // edge
	floor3  = 3 // runtime
	floor4  = 4 // users
	nowhere = -1
)

// place is where a package lives.
type place struct {
	floor int
	// beside are packages of the same floor that it may import too.
	beside []string
}

// house says where each folder is; one that is not listed lives where its parent does.
var house = map[string]place{
	"internal/rule":      {floor: ground},
	"internal/scram":     {floor: ground},
	"internal/mutants":   {ground, []string{"internal/rule", "internal/mutants"}},
	"internal/lease":     {floor: floor1},
	"internal/window":    {floor: floor1},
	"internal/batch":     {floor: floor1},
	"internal/history":   {floor1, []string{"internal/lease"}},
	"internal/policy":    {floor1, []string{"internal/lease"}},
	"internal/member":    {floor1, []string{"internal/lease", "internal/history", "internal/policy"}},
	"internal/audit":     {floor1, []string{"internal/lease", "internal/history"}},
	"internal/kafka":     {floor: floor2},
	"internal/wire":      {floor: floor2},
	"":                   {floor: floor3},
	"marshal":            {floor4, []string{"testutil"}},
	"testutil":           {floor: floor4},
	"testutil/workers":   {floor4, []string{"testutil"}},
	"integration":        {floor4, []string{"testutil"}},
	"testutil/secure":    {floor4, []string{"testutil"}},
	"testutil/realkafka": {floor4, []string{"testutil"}},
	// Beside the house: what is proved there is floor 1, and nobody imports them.
	"internal/scale": {floor: floor4},
	"internal/sim":   {floor2, []string{"internal/sim"}},
	"internal/house": {floor: ground},
	// It changes the text of other packages; what it tries them on is a package that only its tests name.
	"internal/mutate":              {ground, []string{"internal/mutate"}},
	"internal/mutate/testdata/toy": {floor: floor1},
}

// edgeFiles begin the names of the files that are floor 2 inside the root package: the record format.
const edgeFiles = "message_"

func find(pkg string) (place, bool) {
	for p := pkg; p != ""; {
		if at, ok := house[p]; ok {
			return at, true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		p = p[:i]
	}
	if pkg == "" {
		return house[""], true
	}
	return place{floor: nowhere}, false
}

// onFloor tells the floor of a file.
func (s *source) onFloor() int {
	if s.pkg == "" && strings.HasPrefix(s.name, edgeFiles) {
		return floor2
	}
	at, _ := find(s.pkg)
	return at.floor
}

// imports: down only. Tests may use testutil as well, from floor 2 up, and packages of their own floor.
func imports(s *source) []Breach {
	at, known := find(s.pkg)
	if !known {
		return []Breach{{Line: 1, Text: "folder " + s.pkg + " has no floor: give it one in internal/house/floors.go"}}
	}
	var bs []Breach
	for _, spec := range s.syntax.Imports {
		p := strings.Trim(spec.Path.Value, "`\"")
		if spec.Name != nil && spec.Name.Name == "." {
			bs = append(bs, s.breach(spec.Pos(), "dot import of %s", p))
		}
		if p != Module && !strings.HasPrefix(p, Module+"/") {
			continue
		}
		target := strings.TrimPrefix(strings.TrimPrefix(p, Module), "/")
		if target == s.pkg { // an external test package
			continue
		}
		to, known := find(target)
		if !known || !s.mayImport(at, target, to) {
			bs = append(bs, s.breach(spec.Pos(), "%s (floor %d) imports %s (floor %d)",
				cmp.Or(s.pkg, "the root"), at.floor, target, to.floor))
		}
	}
	return bs
}

func (s *source) mayImport(at place, target string, to place) bool {
	for _, alone := range []string{"internal/sim", "internal/house"} {
		if within(target, alone) && !within(s.pkg, alone) {
			return false
		}
	}
	if to.floor < at.floor {
		return true
	}
	for _, b := range at.beside {
		if within(target, b) {
			return true
		}
	}
	if s.test {
		return to.floor == at.floor || at.floor >= floor2 && within(target, "testutil")
	}
	return false
}

func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

const (
	sarama  = "github.com/IBM/sarama"
	logrus  = "github.com/sirupsen/logrus"
	metrics = "github.com/rcrowley/go-metrics"
)

// saramaClient: only internal/kafka talks through sarama; the others know its types. internal/batch knows its messages.
func saramaClient(s *source) []Breach {
	if s.test || within(s.pkg, "internal/kafka") || within(s.pkg, "testutil/secure") { // the last are tests, for two kinds of brokers
		return nil
	}
	var bs []Breach
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		pkg, name, ok := s.selects(n)
		if !ok || pkg != sarama {
			return true
		}
		switch {
		case s.onFloor() == floor1:
			if name != "ConsumerMessage" && name != "RecordHeader" {
				bs = append(bs, s.breach(n.Pos(), "sarama.%s on floor 1: messages only", name))
			}
		case strings.HasPrefix(name, "New") && name != "NewConfig":
			bs = append(bs, s.breach(n.Pos(), "sarama.%s outside of internal/kafka", name))
		}
		return true
	})
	return bs
}
