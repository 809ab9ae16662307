package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	runtimeName = "mutantpoint"
	runtimePath = "github.com/kafka-marshal/marshal/internal/mutate/point"
)

// build makes one test binary of a package that contains all its mutants.
func build(ctx context.Context, p *pkg, texts map[string][]byte, dir string) (binary string, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		to := filepath.Join(dir, p.name+"_"+filepath.Base(path))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, p.name+".overlay.json")
	if err := os.WriteFile(overlayFile, list, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, p.name+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, p.path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s with its mutants: %w\n%s", p.path, err, out)
	}
	return binary, nil
}

// limits are those of a process: seconds of CPU, and KiB of memory that it may write to.
type limits struct {
	seconds int
	kib     int
}

// command runs a test binary in the folder of its package, within limits.
func command(ctx context.Context, p *pkg, binary string, l limits, args ...string) (*exec.Cmd, *bytes.Buffer) {
	const within = `ulimit -t "$0" -d "$1" -c 0; shift; exec "$@"`
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", within, strconv.Itoa(l.seconds), strconv.Itoa(l.kib), binary}, args...)...)
	cmd.Dir = p.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}
