package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// figures are what benchmarks of the library print: by benchmark, then by unit, a value for each time it ran.
type figures map[string]map[string][]float64

// ownBenchmarks need no broker of their own or bring it with them. The quick ones run several times.
var ownBenchmarks = [][]string{
	{"-bench", "^BenchmarkCommit$/^InOrder$", "-benchtime", "300ms", "-count", "7"},
	{"-bench", "^BenchmarkReplay$", "-benchtime", "500ms", "-count", "5"},
	{"-bench", "^BenchmarkHandover$", "-benchtime", "1x"},
}

// ownFigures runs the library's benchmarks in its folder.
func ownFigures(ctx context.Context, folder string) (figures, error) {
	all := figures{}
	for _, args := range ownBenchmarks {
		fmt.Println("go test -run ^$ -benchmem", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "-benchmem"}, append(args, ".")...)...)
		cmd.Dir, cmd.Stderr = folder, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go test %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		if all.read(string(out)) == 0 {
			return nil, fmt.Errorf("go test %s: no benchmark ran", strings.Join(args, " "))
		}
	}
	return all, nil
}

// benchmark: a name, with how many threads Go had unless it was one, how often it ran, then values with their units.
var benchmark = regexp.MustCompile(`^(Benchmark\S*?)(?:-\d+)?\s+\d+\s+(.*)$`)

// read takes the lines of benchmarks from what go test prints, shows them, and tells how many there were.
func (f figures) read(out string) (n int) {
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		m := benchmark.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		n++
		fmt.Println(lines.Text())
		words := strings.Fields(m[2])
		for i := 0; i+1 < len(words); i += 2 {
			if v, err := strconv.ParseFloat(words[i], 64); err == nil {
				f.add(m[1], words[i+1], v)
			}
		}
	}
	return n
}

func (f figures) add(name, unit string, values ...float64) {
	if f[name] == nil {
		f[name] = map[string][]float64{}
	}
	f[name][unit] = append(f[name][unit], values...)
}
