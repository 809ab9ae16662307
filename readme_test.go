package marshal

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// TestProgramsInThePagesCompile builds each whole program of the pages as it stands there.
func TestProgramsInThePagesCompile(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	programs := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for i, rest := range strings.Split(string(text), "```go\n")[1:] {
			code, _, closed := strings.Cut(rest, "```")
			require.True(t, closed, page)
			if !strings.HasPrefix(code, "package main\n") {
				continue
			}
			programs++
			file := filepath.Join(t.TempDir(), "main.go")
			require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
			out, err := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "program"), file).CombinedOutput()
			assert.NoError(t, err, "%s, block %d: %s", page, i+1, out)
		}
	}
	assert.GreaterOrEqual(t, programs, 2)
}

// TestReadmeProgramRuns builds README's worker as it stands there, and runs it against an embedded broker.
func TestReadmeProgramRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, found = strings.Cut(code, "```")
	require.True(t, found)

	b := newBench(t)
	require.NoError(t, b.CreateTopic("orders", 2, nil))
	_, err = b.Produce("orders", 1, testutil.Text("hello from the readme"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(code, `"localhost:9092"`))
	code = strings.Replace(code, `"localhost:9092"`, `"`+b.Addrs()[0]+`"`, 1)
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "worker")
	require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	out, err := exec.Command("go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)

	cmd := exec.Command(binary, "worker-1")
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, if all is well
		_ = cmd.Wait()
	})
	eventually(t, "the message in the worker's output", func() bool { return strings.Contains(output.String(), "hello from the readme") })
	assert.Contains(t, output.String(), "orders/1@0 token ")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "it ends by itself: %s", &output)
	offset, _, err := b.Committed("billing", "orders", 1)
	require.NoError(t, err)
	assert.Equal(t, int64(1), offset)
}
