package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// once is for tests that fail the first time only.
const once = `package p

import ("os"; "testing"; "fmt")

var _ = fmt.Println

func first(name string) bool {
	_, err := os.Stat(name)
	os.WriteFile(name, nil, 0o600)
	return err != nil
}
`

func TestRun(t *testing.T) {
	t.Setenv("GOWORK", "off")
	// Compiled as the guest programs are, so that only these tests are compiled for them.
	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("GOFLAGS", "-trimpath")
	for _, tc := range []struct {
		name, source string
		ok           bool
		unsteady     string
		says         []string
		not          string // what it does not say
	}{
		{"passes", `func TestA(t *testing.T) { t.Log("quiet") }`, true, "", []string{"ok  \ttried/p\t"}, "quiet"},
		{"does without", `func TestA(t *testing.T) { t.Log("quiet"); t.Skip("*** NOT TRIED: there is none") }`, true, "", []string{"ok  \ttried/p\t", "*** NOT TRIED: there is none"}, "quiet"},
		{"fails once", `
func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
func TestB(t *testing.T) { if !first("b") { t.Error("not alone") } }`,
			true, "tried/p TestA\n",
			[]string{"--- FAIL: TestA", "broken", "FAIL\ttried/p\t", "a second try, alone: tried/p TestA", "ok  \ttried/p\t", "UNSTEADY, mend it: tried/p TestA"}, "--- PASS"},
		{"a subtest fails once", `
func TestA(t *testing.T) {
	t.Run("x", func(t *testing.T) { t.Log("quiet") })
	t.Run("y", func(t *testing.T) { if first("y") { t.Error("broken") } })
}`, true, "tried/p TestA\n", []string{"--- FAIL: TestA/y", "broken"}, "quiet"},
		{"fails always", `
func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
func TestB(t *testing.T) { t.Error("broken") }`,
			false, "tried/p TestA\n", []string{"a second try, alone: tried/p TestB"}, "UNSTEADY, mend it: tried/p TestB"},
		{"is skipped at its second try", `func TestA(t *testing.T) { if first("a") { t.Error("broken") }; t.Skip() }`,
			false, "", []string{"a second try, alone: tried/p TestA"}, "UNSTEADY"},
		{"too many fail", `
func TestA(t *testing.T) { if first("a") { t.Error("broken") } }
func TestB(t *testing.T) { TestA(t) }
func TestC(t *testing.T) { if first("c") { t.Error("broken") } }
func TestD(t *testing.T) { if first("d") { t.Error("broken") } }
func TestE(t *testing.T) { if first("e") { t.Error("broken") } }
func TestF(t *testing.T) { if first("f") { t.Error("broken") } }`, false, "", []string{"--- FAIL: TestF"}, "second try"},
		{"dies", `
func TestA(t *testing.T) { if first("a") { fmt.Println("fatal error: torn"); os.Exit(2) } }
func TestB(t *testing.T) { t.Error("never tried") }`, false, "", []string{"fatal error: torn"}, "second try"},
		{"panics", `func TestA(t *testing.T) { if first("a") { panic("torn") } }`, false, "", []string{"panic: torn"}, "second try"},
		{"fails beside its tests", `func TestMain(m *testing.M) { m.Run(); if first("m") { os.Exit(1) } }
func TestA(t *testing.T) {}`, false, "", []string{"FAIL\ttried/p\t"}, "second try"},
		{"races", `func TestA(t *testing.T) { if first("a") { fmt.Println("WARNING: DATA RACE"); t.Error("broken") } }`,
			false, "", []string{"DATA RACE"}, "second try"},
		{"does not build", `func TestA(t *testing.T) { nonsense() }`, false, "", []string{"undefined: nonsense", "[build failed]"}, "second try"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range map[string]string{"go.mod": "module tried\n\ngo 1.26\n", "p/p_test.go": once + tc.source} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var says bytes.Buffer
			ok, err := run(&says, "notes/unsteady", []string{"-vet=off"}, []string{"./p"})
			if err != nil {
				t.Fatal(err)
			}
			if ok != tc.ok {
				t.Errorf("ok %v, want %v; it says\n%s", ok, tc.ok, &says)
			}
			if text, _ := os.ReadFile("notes/unsteady"); string(text) != tc.unsteady {
				t.Errorf("unsteady %q, want %q", text, tc.unsteady)
			}
			for _, want := range tc.says {
				if !strings.Contains(says.String(), want) {
					t.Errorf("it does not say %q, but\n%s", want, &says)
				}
			}
			if tc.not != "" && strings.Contains(says.String(), tc.not) {
				t.Errorf("it says %q:\n%s", tc.not, &says)
			}
		})
	}
}
