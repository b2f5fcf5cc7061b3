package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func load(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandbox.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestLoadMissingFileIsDefaults(t *testing.T) {
	f, err := Load(filepath.Join(t.TempDir(), "none", "sandbox.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Settings(), Defaults()) {
		t.Errorf("Settings() = %+v", f.Settings())
	}
}

func TestDefaultsAreAllowed(t *testing.T) {
	text, err := Defaults().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	f, err := load(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Settings(), Defaults()) {
		t.Errorf("Settings() = %+v", f.Settings())
	}
}

func TestLoadReadsDesktopAppsFile(t *testing.T) {
	f, err := load(t, `{"autoStart": false, "cpus": 8, "memoryGB": 1, "network": "none",
		"setupComplete": true, "lastBootDurations": {"startContainer": 1.5}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.AutoStart, want.CPUs, want.MemoryGB, want.Network = false, 8, 1, NetworkNone
	if !reflect.DeepEqual(f.Settings(), want) {
		t.Errorf("Settings() = %+v", f.Settings())
	}
}

func TestLoadRejectsBrokenFiles(t *testing.T) {
	for _, tc := range []struct {
		name, text, at, says, advice string
	}{
		{"empty", ``, "1:1", "unexpected end", "by hand"},
		{"truncated in a value", "{\n  \"network\": \"outb", "2:18", "unexpected end", ""},
		{"not an object", `[1]`, "1:1", "not a JSON object", ""},
		{"null", ` null`, "1:1", "not a JSON object", ""},
		{"two objects", "{}\n{}", "2:1", "after top-level value", ""},
		{"a comment", "{\n// mine\n}", "2:1", "invalid character", ""},
		{"not UTF-8", "{\"pack\": \"\xff\"}", "1:11", "not UTF-8", ""},
		{"unknown key", "{\n  \"cpu\": 2\n}", "2:3", "cpu: unknown key", "autoStart, cpus, memoryGB"},
		{"a key in other case", `{"CPUs": 2}`, "1:2", "CPUs: unknown key", ""},
		{"a key it cannot honour", `{"allowedDomains": ["a.com"]}`, "1:2", "allowedDomains: unknown key", ""},
		{"the key twice", `{"cpus": 2, "cpus": 3}`, "1:13", "cpus: duplicate key", ""},
		{"columns count letters", `{"pack": "é", "cpus": 2}`, "1:10", "not allowed", ""},
		{"too few", `{"cpus": 0}`, "1:10", "cpus: 0 is out of range", "cpus is a whole number from 1 to 8."},
		{"not whole", `{"cpus": 2.0}`, "1:10", "2.0 is not a whole number", ""},
		{"not true", `{"autoStart": 1}`, "1:15", "1 is not true or false", "true or false"},
		{"another network", `{"network": "proxy"}`, "1:13", `network: "proxy" is not allowed`, `"outbound" or "none"`},
		{"a relative pack", `{"pack": "./here"}`, "1:10", "not allowed", "absolute path"},
		{"mirrors no list", `{"mirrors": "https://a"}`, "1:13", "not a list", "a list, each item a plain http"},
		{"a mirror with a blank", `{"mirrors": ["https://a.org", "https://b.org x"]}`, "1:13", `item 2: "https://b.org x" is not allowed`, ""},
		{"a package that is an option", `{"toolbox": ["--allow-untrusted"]}`, "1:13", "item 1", ""},
		{"too many packages", `{"toolbox": ["a"` + strings.Repeat(`,"a"`, maxListItems) + `]}`, "1:13", "257 items", ""},
		{"no version", `{"version": 0}`, "1:13", "version: 0 is not a format version", "up to 1"},
		{"newer, yet a value out of range", `{"version": 2, "cpus": 64}`, "1:24", "out of range", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := load(t, tc.text)
			if err == nil {
				t.Fatalf("Load = %+v, want an error", f.Settings())
			}
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.InvalidArgs {
				t.Fatalf("Load = %v, want invalid_args", err)
			}
			if !strings.HasSuffix(e.Subject, "sandbox.json:"+tc.at) {
				t.Errorf("the error is at %s, want %s", e.Subject, tc.at)
			}
			if !strings.Contains(e.Error(), tc.says) {
				t.Errorf("Error() = %q, want %q in it", e, tc.says)
			}
			if e.Advice == "" || !strings.Contains(e.Advice, tc.advice) {
				t.Errorf("Advice = %q, want %q in it", e.Advice, tc.advice)
			}
		})
	}
}

// TestLoadRejectsOtherFiles checks that a FIFO does not block, and that a huge file is not read.
func TestLoadRejectsOtherFiles(t *testing.T) {
	fifo, huge := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "huge")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(huge, nil, 0o600), os.Truncate(huge, maxFileSize+1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{t.TempDir(), fifo, huge} {
		if _, err := Load(path); fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
			t.Errorf("%s: %v, want invalid_args with advice", path, err)
		}
	}
}

func TestSaveKeepsUnknownKeys(t *testing.T) {
	f, err := load(t, `{"version": 2, "shiny": {"b": 1.50, "a": [ ]}, "cpus": 3, "lastBootedImageDigest": "sha256:<x>"}`)
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{"cpus": "4", "network": "none"} {
		if err := f.Set(key, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "version": 2,
  "shiny": {
    "b": 1.50,
    "a": []
  },
  "cpus": 4,
  "lastBootedImageDigest": "sha256:<x>",
  "network": "none"
}
`
	if string(got) != want {
		t.Errorf("the file is now\n%s", got)
	}
	if again, err := Load(f.path); err != nil || !reflect.DeepEqual(again.Settings(), f.Settings()) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestSet(t *testing.T) {
	for _, tc := range []struct{ key, text, want string }{
		{"autoStart", "false", "false"},
		{"cpus", " 3 ", "3"},
		{"pack", "/srv/pack", `"/srv/pack"`},
		{"mirrors", "https://a.org/alpine/, http://b.org", `["https://a.org/alpine","http://b.org"]`},
		{"toolbox", `["git"]`, `["git"]`},
		{"toolbox", "", `[]`},
		{"cpus", "", ""},
		{"cpus", "2}", ""},
		{"cpus", "9", ""},
		{"network", `"none"`, ""},
		{"toolbox", "[", ""},
		{"version", "2", ""},
	} {
		f, err := load(t, "{}")
		if err != nil {
			t.Fatal(err)
		}
		err = f.Set(tc.key, tc.text)
		if tc.want == "" {
			if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
				t.Errorf("Set(%s, %q) = %v, want invalid_args with advice", tc.key, tc.text, err)
			}
			if !reflect.DeepEqual(f.Settings(), Defaults()) {
				t.Errorf("Set(%s, %q) failed and changed the settings", tc.key, tc.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("Set(%s, %q) = %v", tc.key, tc.text, err)
			continue
		}
		text, _ := f.Settings().MarshalJSON()
		d, err := parseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(string(d.members[d.index(tc.key)].value)), ""); got != tc.want {
			t.Errorf("Set(%s, %q) made %s, want %s", tc.key, tc.text, got, tc.want)
		}
	}
}

func TestEditLosesNothing(t *testing.T) {
	h := home(t)
	edits := map[string]string{"cpus": "5", "memoryGB": "6", "diskGB": "7", "network": "none", "autoStart": "false", "pack": "debian"}
	var wg sync.WaitGroup
	for key, text := range edits {
		wg.Go(func() {
			if err := Edit(h, func(f *File) error { return f.Set(key, text) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f, err := Load(h.SettingsFile())
	if err != nil {
		t.Fatal(err)
	}
	s := f.Settings()
	if got := fmt.Sprintln(s.CPUs, s.MemoryGB, s.DiskGB, s.Network, s.AutoStart, s.Pack); got != "5 6 7 none false debian\n" {
		t.Errorf("settings = %s", got)
	}
	entries, err := os.ReadDir(filepath.Dir(h.SettingsFile()))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the settings there is %v, %v", entries, err)
	}
	if info, _ := entries[0].Info(); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
}

func TestEditLeavesTheFileOnError(t *testing.T) {
	h := home(t)
	if err := WriteFile(h.SettingsFile(), []byte(`{"cpus": 99}`)); err != nil {
		t.Fatal(err)
	}
	if err := Edit(h, func(f *File) error { return f.Set("cpus", "2") }); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("Edit of a broken file = %v, want invalid_args", err)
	}
	if got, _ := os.ReadFile(h.SettingsFile()); string(got) != `{"cpus": 99}` {
		t.Errorf("the broken file was replaced by %s", got)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"cpus": 2}`, `{"version": 2, "x": [1, {"y": null}]}`, `{"mirrors": ["https://a.org"], "toolbox": []}`, "{\"a\": \"\xff\"}", `{"cpus": 1, "cpus": 1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file := &File{path: "sandbox.json", settings: Defaults(), doc: &document{}}
		if err := file.decode(text); err != nil {
			if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
				t.Fatalf("%v is not invalid_args with advice", err)
			}
			return
		}
		// Writing and reading again must not change anything.
		again := &File{path: "sandbox.json", settings: Defaults(), doc: &document{}}
		if err := again.decode(file.doc.bytes()); err != nil {
			t.Fatalf("written again it does not read: %v", err)
		}
		if !reflect.DeepEqual(again.settings, file.settings) {
			t.Fatalf("written again it reads %+v, was %+v", again.settings, file.settings)
		}
	})
}

func TestInferenceSettings(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:1337/v1/": "http://127.0.0.1:1337/v1", "https://models.example/v1": "https://models.example/v1", "": "",
		"ftp://a/": "refused", "127.0.0.1:1337": "refused", "http://": "refused", "http://user:key@a/v1": "refused",
		"http://a/v1?key=x": "refused", "http://a/v1#x": "refused", "http://a/\n": "refused", "http://a/" + strings.Repeat("x", 600): "refused",
	} {
		got, err := parseInferenceURL(text)
		if err != nil {
			got = "refused"
		}
		if string(got) != want {
			t.Errorf("the address %q is %q, want %q", text, got, want)
		}
	}
	for text, ok := range map[string]bool{"llama3.2:3b": true, "qwen/qwen3-8b": true, "": false, "-x": false, "a b": false, "a\n": false, strings.Repeat("x", 201): false} {
		if _, err := ParseModelName(text); (err == nil) != ok {
			t.Errorf("the model %q: %v", text, err)
		}
	}
}
