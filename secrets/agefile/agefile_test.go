package agefile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/secretstest"
)

// quick is the work factor in tests.
const quick = 4

var token = secrets.Key{Agent: secretstest.Alice, Name: "TOKEN"}

func newStore(home config.Home, prompt Prompt) *Store {
	s := New(home, prompt)
	s.file.key.work = quick
	return s
}

// says answers a prompt and counts the prompts.
func says(t *testing.T, text string, asked *int) Prompt {
	return func(context.Context) (secrets.Value, error) {
		*asked++
		return secretstest.Value(t, text), nil
	}
}

func TestSuite(t *testing.T) {
	home := config.Home(t.TempDir())
	secretstest.Run(t, func(*testing.T) secrets.Store { return newStore(home, nil) })
}

func TestSuiteWithPassphrase(t *testing.T) {
	home := config.Home(t.TempDir())
	if err := newStore(home, nil).Protect(t.Context(), secretstest.Value(t, "open sesame")); err != nil {
		t.Fatal(err)
	}
	var turn sync.Mutex
	secretstest.Run(t, func(t *testing.T) secrets.Store {
		return newStore(home, func(context.Context) (secrets.Value, error) {
			turn.Lock()
			defer turn.Unlock()
			return secretstest.Value(t, "open sesame"), nil
		})
	})
}

// TestOnDisk checks that the files are private, reveal nothing and can be read by age.
func TestOnDisk(t *testing.T) {
	home := config.Home(t.TempDir())
	if err := newStore(home, nil).Set(t.Context(), token, secretstest.Value(t, secretstest.Canary)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(string(home), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		for _, open := range []string{secretstest.Canary, "TOKEN", string(secretstest.Alice)} {
			if bytes.Contains(text, []byte(open)) {
				t.Errorf("%s has %s in it", path, open)
			}
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(home.SecretsKey())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(home.Secrets())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := open(sealed, ids[0]); err != nil || !bytes.Contains(text, []byte(secretstest.Canary)) {
		t.Errorf("age reads %q, %v", text, err)
	}
}

func TestPassphrase(t *testing.T) {
	ctx, home, asked := t.Context(), config.Home(t.TempDir()), 0
	s := newStore(home, says(t, "one", &asked))
	if err := s.Set(ctx, token, secretstest.Value(t, "x")); err != nil {
		t.Fatal(err)
	}
	if how, err := s.Check(ctx); err != nil || !strings.Contains(how, "weaker") {
		t.Errorf("Check() = %q, %v", how, err)
	}
	if err := s.Protect(ctx, secretstest.Value(t, "one")); err != nil || asked > 0 {
		t.Fatal(err, asked)
	}
	for range 3 {
		if v, err := s.Get(ctx, token); err != nil || v.Reveal() != "x" {
			t.Error(err)
		}
	}
	if how, err := s.Check(ctx); err != nil || !strings.Contains(how, "passphrase") {
		t.Errorf("Check() = %q, %v", how, err)
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}

	// Without a prompt, and with a wrong answer.
	secretstest.Refuses(t, newStore(home, nil), token, secrets.Locked)
	_, err := newStore(home, says(t, "two", &asked)).Get(ctx, token)
	if !errors.Is(err, secrets.Denied) || fault.KindOf(err) != fault.UserDenied {
		t.Errorf("with a wrong passphrase: %v", err)
	}

	// With the passphrase in a file, for daemons.
	file := filepath.Join(t.TempDir(), "passphrase")
	t.Setenv(PassphraseFileVariable, file)
	secretstest.Refuses(t, newStore(home, nil), token, secrets.Locked)
	if err := os.WriteFile(file, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	secretstest.Refuses(t, newStore(home, nil), token, secrets.Locked) // others may read the file
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if v, err := newStore(home, nil).Get(ctx, token); err != nil || v.Reveal() != "x" {
		t.Error(err)
	}

	if err := s.Protect(ctx, secretstest.Value(t, "two")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, token); !errors.Is(err, secrets.Denied) {
		t.Errorf("with the passphrase that was: %v", err)
	}
	t.Setenv(PassphraseFileVariable, "")
	if err := newStore(home, says(t, "two", &asked)).Unprotect(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := newStore(home, nil).Get(ctx, token); err != nil || v.Reveal() != "x" {
		t.Error(err)
	}
}

// TestBroken checks that the store names a damaged file and does not change it.
func TestBroken(t *testing.T) {
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, text []byte, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(config.Home, []byte)
		kind  fault.Kind
		says  string
	}{
		{"no key", func(h config.Home, _ []byte) { _ = os.Remove(h.SecretsKey()) }, fault.Unavailable, "is missing"},
		{"another key", func(h config.Home, _ []byte) { write(h.SecretsKey(), plain(other), 0o600) }, fault.Rejected, "is not encrypted with the key"},
		{"no key in the key", func(h config.Home, _ []byte) { write(h.SecretsKey(), []byte(secretstest.Canary), 0o600) }, fault.Rejected, "not an age key"},
		{"an open key", func(h config.Home, _ []byte) { write(h.SecretsKey(), plain(other), 0o640) }, fault.Rejected, "other users"},
		{"an open file", func(h config.Home, b []byte) { write(h.Secrets(), b, 0o604) }, fault.Rejected, "other users"},
		{"a flipped byte", func(h config.Home, b []byte) { b[len(b)-1] ^= 1; write(h.Secrets(), b, 0o600) }, fault.Rejected, "damaged"},
		{"half of it", func(h config.Home, b []byte) { write(h.Secrets(), b[:len(b)/2], 0o600) }, fault.Rejected, "damaged"},
		{"nothing of it", func(h config.Home, _ []byte) { write(h.Secrets(), nil, 0o600) }, fault.Rejected, "damaged"},
		{"too much of it", func(h config.Home, _ []byte) { write(h.Secrets(), make([]byte, maxSize+1), 0o600) }, fault.Rejected, "larger"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, home := t.Context(), config.Home(t.TempDir())
			s := newStore(home, nil)
			if err := s.Set(ctx, token, secretstest.Value(t, "x")); err != nil {
				t.Fatal(err)
			}
			sealed, err := os.ReadFile(home.Secrets())
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(home, sealed)
			spoilt, _ := os.ReadFile(home.Secrets())
			_, getErr := s.Get(ctx, token)
			_, checkErr := s.Check(ctx)
			for what, err := range map[string]error{"Get": getErr, "Check": checkErr, "Set": s.Set(ctx, token, secretstest.Value(t, secretstest.Canary)), "Delete": s.Delete(ctx, token)} {
				if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) || fault.AdviceOf(err) == "" {
					t.Errorf("%s = %v (%s)", what, err, fault.KindOf(err))
				}
				secretstest.Silent(t, what, err)
			}
			if after, _ := os.ReadFile(home.Secrets()); !bytes.Equal(after, spoilt) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestNewerFormat(t *testing.T) {
	home := config.Home(t.TempDir())
	s := newStore(home, nil)
	id, err := s.file.key.getOrMake(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal([]byte(`{"version": 2, "vaults": []}`), id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WriteFile(home.Secrets(), sealed); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), token); fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "unsupported format 2") {
		t.Error(err)
	}
}

// TestFull checks that a file that is too large to be read again is not written.
func TestFull(t *testing.T) {
	ctx, home := t.Context(), config.Home(t.TempDir())
	s := newStore(home, nil)
	full := content{secrets.AgentService: {}}
	for i := range maxSize/secrets.MaxValueSize - 1 {
		full[secrets.AgentService][strings.Repeat("k", i+1)] = strings.Repeat("x", secrets.MaxValueSize)
	}
	if err := s.file.write(ctx, "test", full); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(ctx, token, secretstest.Value(t, strings.Repeat("x", secrets.MaxValueSize))); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("a full file: %v", err)
	}
	if _, err := s.file.read(ctx, "test", nil); err != nil {
		t.Error(err)
	}
}

// killedVariable makes this program store secrets until it is killed.
const killedVariable = "OSAURUS_TEST_KEEP_IN"

func TestMain(m *testing.M) {
	if home := os.Getenv(killedVariable); home != "" {
		for i := 0; ; i++ {
			v, _ := secrets.ParseValue(strings.Repeat("x", 1+i%1000))
			if err := New(config.Home(home), nil).Set(context.Background(), token, v); err != nil {
				panic(err)
			}
			if _, err := os.Stdout.WriteString("."); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// TestKilledAtAnyMoment checks that the file is intact after its writer was killed at any moment.
func TestKilledAtAnyMoment(t *testing.T) {
	home := config.Home(t.TempDir())
	for i := range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedVariable+"="+string(home))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = out.Read(make([]byte, 1+7*i)) // after some secrets, in the middle of the next
		if err := errors.Join(err, cmd.Process.Kill()); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		if v, err := newStore(home, nil).Get(t.Context(), token); err != nil || strings.Trim(v.Reveal(), "x") != "" || v.Check() != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
}
