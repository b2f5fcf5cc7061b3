package artifacts

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/store/storetest"
	"osaurus-sandbox/tools"
)

type journal []string

func (h *journal) Note(e events.Event) {
	*h = append(*h, fmt.Sprint(e.Kind, " ", e.Fields["artifact"], " ", e.Fields["name"], " by ", e.Cause))
}

type rig struct {
	*Artifacts
	t          *testing.T
	alice, bob bridge.Caller
	events     *journal
}

func newRig(t *testing.T) *rig {
	db, who := storetest.New(t, "alice", "bob")
	r := &rig{t: t, alice: who[0], bob: who[1], events: new(journal)}
	var err error
	if r.Artifacts, err = Open(t.Context(), Options{Home: config.Home(t.TempDir()), DB: db, Record: r.events}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// owner is an agent with a session.
type owner struct {
	tools.Agent
	session config.SessionID
}

func ownerOf(who bridge.Caller, session config.SessionID) owner {
	return owner{tools.Agent{ID: who.Agent, Name: who.Name}, session}
}

// open begins a draft.
func (r *rig) open(o owner, name string) (*Draft, error) {
	d, err := r.Draft(r.t.Context(), o.Agent, o.session, name)
	if err != nil {
		return nil, err
	}
	return d.(*Draft), nil
}

// draft makes a draft. files are pairs of a path and its content.
func (r *rig) draft(o owner, name string, files ...string) (*Draft, error) {
	d, err := r.open(o, name)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(files); i += 2 {
		f, err := d.File(files[i], 0)
		if err == nil {
			_, err = io.WriteString(f, files[i+1])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, errors.Join(err, d.Discard())
		}
	}
	return d, nil
}

func (r *rig) share(o owner, name string, files ...string) Artifact {
	r.t.Helper()
	d, err := r.draft(o, name, files...)
	if err != nil {
		r.t.Fatal(err)
	}
	made, err := d.Keep(r.t.Context(), "what it is")
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := r.Get(r.t.Context(), ID(made.ID))
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// read lists the files of an artifact as PATH=CONTENT.
func (r *rig) read(f Artifact) (list []string, err error) {
	var packed bytes.Buffer
	if err := r.Read(r.t.Context(), f, &packed); err != nil {
		return nil, err
	}
	for archive := tar.NewReader(&packed); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		text, failed := io.ReadAll(archive)
		if err = errors.Join(err, failed); err != nil {
			return list, err
		}
		if h.Typeflag == tar.TypeReg {
			list = append(list, strings.TrimPrefix(strings.TrimPrefix(h.Name, f.Name), "/")+"="+string(text))
		}
	}
}

func (r *rig) list(f Filter) (names []string) {
	r.t.Helper()
	for one, err := range r.List(r.t.Context(), f) {
		if err != nil {
			r.t.Fatal(err)
		}
		names = append(names, one.within())
	}
	return names
}

// onDisk lists the files and folders on the disk.
func (r *rig) onDisk() (names []string) {
	r.t.Helper()
	root := r.Home.Artifacts()
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if path != root {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func TestArtifacts(t *testing.T) {
	r := newRig(t)
	page := r.share(ownerOf(r.alice, "chat-1"), "page.html", "", "<!DOCTYPE html><p>hello")
	if page.ID != 1 || page.Size != 23 || page.Files != 1 || page.Folder || page.Type != "text/html; charset=utf-8" || page.SHA256 != digest("<!DOCTYPE html><p>hello") || page.Description != "what it is" {
		t.Errorf("%+v", page)
	}
	site := r.share(ownerOf(r.alice, "chat-1"), "site", "b/c.txt", "c", "a.txt", "aa")
	if want := digest(digest("aa") + "  a.txt\n" + digest("c") + "  b/c.txt\n"); site.SHA256 != want || site.Size != 3 || site.Files != 2 || !site.Folder || site.Type != "inode/directory" {
		t.Errorf("%+v, want the digest %s", site, want)
	}
	if list, err := r.read(site); err != nil || !slices.Equal(list, []string{"a.txt=aa", "b/c.txt=c"}) {
		t.Errorf("%q, %v", list, err)
	}
	r.share(ownerOf(r.bob, ""), "page.html", "", "bob's")
	again := r.share(ownerOf(r.bob, "chat-1"), "page.html", "", "bob's too")
	if list, err := r.read(again); err != nil || again.Name != "page-2.html" || !slices.Equal(list, []string{"=bob's too"}) {
		t.Errorf("%+v: %q, %v", again, list, err)
	}
	for filter, want := range map[Filter]string{
		{}:                             "[chat-1/page-2.html default/page.html chat-1/site chat-1/page.html]",
		{Agent: string(r.alice.Agent)}: "[chat-1/site chat-1/page.html]",
		{Agent: "bob"}:                 "[chat-1/page-2.html default/page.html]",
		{Session: "default"}:           "[default/page.html]",
		{Agent: "carol"}:               "[]",
	} {
		if got := fmt.Sprint(r.list(filter)); got != want {
			t.Errorf("%+v: %s, want %s", filter, got, want)
		}
	}
	info, err := os.Stat(r.Path(page))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	storetest.Delete(t, r.DB, r.alice) // her artifacts stay
	if err := r.Delete(t.Context(), site.ID, "a person"); err != nil {
		t.Error(err)
	}
	if _, err := r.Get(t.Context(), site.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted artifact: %v", err)
	}
	if err := os.Remove(r.Path(page)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read(page); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a moved artifact: %v", err)
	}
	for _, id := range []ID{page.ID, again.ID} {
		if err := r.Delete(t.Context(), id, "a person"); err != nil {
			t.Error(err)
		}
	}
	if got := r.onDisk(); !slices.Equal(got, []string{"default", "default/page.html"}) {
		t.Errorf("there are %q", got)
	}
	if next := r.share(ownerOf(r.bob, "chat-1"), "page.html", "", ""); next.ID != 5 || next.Name != "page.html" {
		t.Errorf("%+v", next)
	}
	want := journal{"artifact.shared 1 page.html by a tool", "artifact.shared 2 site by a tool", "artifact.shared 3 page.html by a tool", "artifact.shared 4 page-2.html by a tool",
		"artifact.deleted 2 site by a person", "artifact.deleted 1 page.html by a person", "artifact.deleted 4 page-2.html by a person", "artifact.shared 5 page.html by a tool"}
	if !slices.Equal(*r.events, want) {
		t.Errorf("the events are\n%s", strings.Join(*r.events, "\n"))
	}
}

// Files that people have put into the folder stay, and their names are avoided.
func TestNamesOfPeople(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.Home.Artifacts(), "s")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if got := r.share(ownerOf(r.alice, "s"), "a.txt", "", "x"); got.Name != "a-2.txt" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(r.Home.Artifacts(), "t")); err != nil {
		t.Fatal(err)
	}
	d, err := r.draft(ownerOf(r.alice, "t"), "b.txt", "", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Keep(t.Context(), ""); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("through a link that leads out: %v", err)
	}
}

func TestRefusedNames(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"", ".", "..", "a/b", "/", "\x00", "a\x1b[31m", "a\nb", "\u202egnp.exe", "\xff", strings.Repeat("ä", 101), " a", "a ", ".hidden", "-rf", "~"} {
		if _, err := r.open(ownerOf(r.alice, ""), name); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"..", "../a", "/etc/passwd", "a//b", "a/../../b", "a/", "\u200b", strings.Repeat("a/", 300) + "a"} {
		if _, err := r.draft(ownerOf(r.alice, ""), "x", name, ""); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("below: %q: %v", name, err)
		}
	}
	if _, err := r.draft(ownerOf(r.alice, ""), "x", "a", "1", "a", "2"); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("the same file twice: %v", err)
	}
	for _, name := range []string{"Ünïcode 文書.pdf", "a'b\"$c;d", "a..b", strings.Repeat("a", 200)} {
		if got := r.share(ownerOf(r.alice, ""), name, "", ""); got.Name != name {
			t.Errorf("%q became %q", name, got.Name)
		}
	}
	if _, err := os.Stat(filepath.Join(string(r.Home), "b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("outside of the folder: %v", err)
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	owner := ownerOf(r.alice, "")
	begin := func() *Draft {
		t.Helper()
		d, err := r.open(owner, "x")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Discard(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	d := begin()
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := r.Draft(soon, owner.Agent, owner.session, "x"); fault.KindOf(err) != fault.Timeout {
		t.Errorf("two drafts at once: %v", err)
	}
	if _, err := d.Keep(ctx, ""); fault.KindOf(err) != fault.InvalidArgs {
		t.Errorf("without a file: %v", err)
	}
	d = begin()
	f, err := d.File("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	d.made.Size = MaxSize - 3
	if _, err := io.WriteString(f, "abc"); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := io.WriteString(f, "d"); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a byte too many: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	d.made.Files = MaxFiles
	if _, err := d.File("b", 0); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a file too many: %v", err)
	}
	if _, err := d.File("c", MaxSize+1); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a file of a larger size: %v", err)
	}
	if err := errors.Join(d.Discard(), d.Discard()); err != nil {
		t.Error(err)
	}
	if got := r.onDisk(); len(got) != 0 {
		t.Errorf("there are %q", got)
	}

	r.insert(owner, Keep, 1)
	if d, err = r.draft(owner, "x", "", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Keep(ctx, ""); fault.KindOf(err) != fault.Rejected || !strings.Contains(fault.AdviceOf(err), "artifacts delete") {
		t.Errorf("one too many: %v", err)
	}
	r.insert(ownerOf(r.bob, ""), 1, KeepBytes-3)
	r.share(ownerOf(r.bob, ""), "small", "", "abc")
	if d, err = r.draft(ownerOf(r.bob, ""), "large", "", "d"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Keep(ctx, ""); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a byte too many of one agent: %v", err)
	}
	if got := r.onDisk(); !slices.Equal(got, []string{"default", "default/small"}) {
		t.Errorf("there are %q", got)
	}
}

// Open removes the drafts of a daemon that was killed.
func TestDraftsAreCleared(t *testing.T) {
	r := newRig(t)
	kept := r.share(ownerOf(r.alice, "s"), "a", "", "x")
	if _, err := r.draft(ownerOf(r.alice, "s"), "b", "deep/er", "x"); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), r.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := r.onDisk(); !slices.Equal(got, []string{"s", "s/a"}) {
		t.Errorf("there are %q", got)
	}
	if list, err := (&rig{Artifacts: again, t: t}).read(kept); err != nil || !slices.Equal(list, []string{"=x"}) {
		t.Errorf("%q, %v", list, err)
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"a.txt", "..", "a/../b", "\u202ea", ".x", "a\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkTop(name) == nil && (filepath.Base(name) != name || !filepath.IsLocal(name) || strings.HasPrefix(name, ".")) {
			t.Errorf("an artifact may be called %q", name)
		}
		if checkPath(name) == nil && !filepath.IsLocal(name) {
			t.Errorf("a file of one may be at %q", name)
		}
	})
}

// insert adds rows without files.
func (r *rig) insert(o owner, rows int, size int64) {
	r.t.Helper()
	if _, err := r.DB.Exec(r.t.Context(), "insert", `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
		INSERT INTO artifacts (agent, agent_name, session, name, description, folder, type, files, size, sha256, created)
		SELECT ?1, ?2, 'before', ?2 || i, '', 0, '', 1, ?4, '', 0 FROM n`, o.ID, o.Name, rows, size); err != nil {
		r.t.Fatal(err)
	}
}
