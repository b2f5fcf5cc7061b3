//go:build linux

package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
)

// client returns a client of a worker in this process.
func client(t *testing.T) guestpbconnect.FilesClient {
	t.Helper()
	ours, theirs, err := socketPair()
	must(t, err)
	socket, err := socketOf(theirs)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(socket, idleTime) }()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		here, there, err := connected()
		if err != nil {
			return nil, err
		}
		defer there.Close() // the worker has its own
		return here, pass(ours, there)
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = ours.Close()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("the worker: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the worker outlives its socket")
		}
	})
	return guestpbconnect.NewFilesClient(&http.Client{Transport: transport}, "http://files", protocol.ClientOptions(), connect.WithSendMaxBytes(protocol.MaxFileMessage))
}

// connected returns two connected sockets.
func connected() (here, there *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	here, err1 := socketOf(os.NewFile(uintptr(fds[0]), "here"))
	there, err2 := socketOf(os.NewFile(uintptr(fds[1]), "there"))
	return here, there, errors.Join(err1, err2)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func at(root, rel string) *guestpb.FilePath {
	return &guestpb.FilePath{Root: []byte(root), Path: []byte(rel)}
}

func read(t *testing.T, c guestpbconnect.FilesClient, r *guestpb.ReadFileRequest) (text string, answer *guestpb.ReadFileResponse, err error) {
	t.Helper()
	stream, err := c.Read(t.Context(), r)
	must(t, err)
	defer stream.Close()
	answer = new(guestpb.ReadFileResponse)
	for stream.Receive() {
		m := stream.Msg()
		text += string(m.Data)
		proto.Merge(answer, m)
	}
	return text, answer, faultrpc.Decode("read", "", stream.Err())
}

func write(t *testing.T, c guestpbconnect.FilesClient, r *guestpb.WriteFileRequest, text string) (*guestpb.WriteFileResponse, error) {
	t.Helper()
	r.Content = []byte(text)
	a, err := c.Write(t.Context(), r)
	if err != nil {
		return nil, faultrpc.Decode("write", "", err)
	}
	return a, nil
}

func TestRead(t *testing.T) {
	c, dir := client(t), t.TempDir()
	var lines []string
	for i := range 30_000 {
		lines = append(lines, fmt.Sprintf("line %d", i+1))
	}
	whole := strings.Join(lines, "\n") + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "long"), []byte(whole), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "no end"), []byte("a\nb\nc"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	must(t, os.Symlink(filepath.Join(dir, "links/two"), filepath.Join(dir, "absolute")))
	must(t, os.Mkdir(filepath.Join(dir, "links"), 0o755))
	must(t, os.Symlink("../no end", filepath.Join(dir, "links/two")))
	for _, tc := range []struct {
		name      string
		r         *guestpb.ReadFileRequest
		want      string
		truncated bool
	}{
		{"all", &guestpb.ReadFileRequest{File: at(dir, "long")}, whole, false},
		{"bytes", &guestpb.ReadFileRequest{File: at(dir, "long"), Offset: 7, Limit: 6}, "line 2", true},
		{"just enough bytes", &guestpb.ReadFileRequest{File: at(dir, "no end"), Limit: 5}, "a\nb\nc", false},
		{"from behind the end", &guestpb.ReadFileRequest{File: at(dir, "no end"), Offset: 99}, "", false},
		{"from behind all ends", &guestpb.ReadFileRequest{File: at(dir, "no end"), Offset: math.MaxUint64}, "", false},
		{"lines from an offset", &guestpb.ReadFileRequest{File: at(dir, "long"), Offset: 3, Lines: 2}, "e 1\nline 2\n", false},
		{"lines", &guestpb.ReadFileRequest{File: at(dir, "no end"), Lines: 2}, "a\nb\n", false},
		{"lines from a line on", &guestpb.ReadFileRequest{File: at(dir, "long"), FirstLine: 20_000, Lines: 2}, "line 20000\nline 20001\n", false},
		{"the first line", &guestpb.ReadFileRequest{File: at(dir, "no end"), FirstLine: 1, Lines: 1}, "a\n", false},
		{"lines to the end", &guestpb.ReadFileRequest{File: at(dir, "no end"), FirstLine: 2}, "b\nc", false},
		{"more lines than there are", &guestpb.ReadFileRequest{File: at(dir, "no end"), FirstLine: 3, Lines: 9}, "c", false},
		{"lines behind the end", &guestpb.ReadFileRequest{File: at(dir, "no end"), FirstLine: 9, Lines: 9}, "", false},
		{"lines with a limit", &guestpb.ReadFileRequest{File: at(dir, "long"), FirstLine: 3, Lines: 2, Limit: 3}, "lin", true},
		{"the last lines", &guestpb.ReadFileRequest{File: at(dir, "long"), LastLines: 2}, "line 29999\nline 30000\n", false},
		{"many of the last lines", &guestpb.ReadFileRequest{File: at(dir, "long"), LastLines: 29_999}, strings.TrimPrefix(whole, "line 1\n"), false},
		{"more of the last lines than there are", &guestpb.ReadFileRequest{File: at(dir, "no end"), LastLines: 9}, "a\nb\nc", false},
		{"the last line without an end", &guestpb.ReadFileRequest{File: at(dir, "no end"), LastLines: 1}, "c", false},
		{"links that stay below", &guestpb.ReadFileRequest{File: at(dir, "absolute")}, "a\nb\nc", false},
		{"an empty file", &guestpb.ReadFileRequest{File: at(dir, "empty")}, "", false},
		{"the last lines of an empty file", &guestpb.ReadFileRequest{File: at(dir, "empty"), LastLines: 3}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, answer, err := read(t, c, tc.r)
			if err != nil || got != tc.want || answer.Truncated != tc.truncated {
				t.Errorf("%d bytes (%.40q…), truncated %v, %v; want %d", len(got), got, answer.Truncated, err, len(tc.want))
			}
			file, err := os.ReadFile(filepath.Join(dir, string(tc.r.File.Path)))
			if end := answer.Offset + uint64(len(got)); err != nil || end > uint64(len(file)) || string(file[answer.Offset:end]) != got {
				t.Errorf("it is not the text at %d", answer.Offset)
			}
		})
	}
}

// TestRefusals reads and writes what is no regular file or outside of the root.
func TestRefusals(t *testing.T) {
	c, dir := client(t), t.TempDir()
	root := filepath.Join(dir, "home")
	must(t, os.MkdirAll(filepath.Join(root, "folder"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "outside"), []byte("secret"), 0o644))
	must(t, unix.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	socket, err := net.Listen("unix", filepath.Join(root, "socket"))
	must(t, err)
	defer socket.Close()
	for name, to := range map[string]string{
		"out": "../outside", "abs": filepath.Join(dir, "outside"), "etc": "/etc/passwd", "up": "..", "loop": "loop", "proc": "/proc/self/root/etc/passwd", "new": "../planted", "newabs": filepath.Join(dir, "planted"),
	} {
		must(t, os.Symlink(to, filepath.Join(root, name)))
	}
	for path, want := range map[string]fault.Kind{
		"nothing": fault.NotFound, "folder": fault.InvalidArgs, "folder/": fault.InvalidArgs, "pipe": fault.Rejected, "socket": fault.Rejected,
		"out": fault.InvalidArgs, "abs": fault.InvalidArgs, "etc": fault.InvalidArgs, "up": fault.InvalidArgs, "up/outside": fault.InvalidArgs, "loop": fault.InvalidArgs, "proc": fault.InvalidArgs,
		"../outside": fault.InvalidArgs, "folder/../../outside": fault.InvalidArgs, "/etc/passwd": fault.InvalidArgs, "": fault.NotFound, "a\x00b": fault.InvalidArgs, "outside/x": fault.NotFound,
	} {
		text, _, err := read(t, c, &guestpb.ReadFileRequest{File: at(root, path)})
		if fault.KindOf(err) != want || text != "" {
			t.Errorf("read %q: %q, %v, want %s", path, text, err, want)
		}
	}
	for path, want := range map[string]fault.Kind{
		"folder": fault.InvalidArgs, "pipe": fault.Rejected, "socket": fault.Rejected, "out": fault.InvalidArgs, "abs": fault.InvalidArgs, "up/planted": fault.InvalidArgs,
		"new": fault.InvalidArgs, "newabs": fault.InvalidArgs, "loop": fault.InvalidArgs, "../planted": fault.InvalidArgs, "no/such/folder": fault.NotFound, ".": fault.InvalidArgs,
	} {
		for _, appends := range []bool{false, true} {
			if _, err := write(t, c, &guestpb.WriteFileRequest{File: at(root, path), Append: appends}, "x"); fault.KindOf(err) != want {
				t.Errorf("write %q (append %v): %v, want %s", path, appends, err, want)
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "outside")); err != nil || string(text) != "secret" {
		t.Errorf("what is outside: %q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "planted")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("planted: %v", err)
	}
}

func TestWrite(t *testing.T) {
	c, dir := client(t), t.TempDir()
	content := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return string(text)
	}
	big := strings.Repeat("0123456789abcdef", 20_000)
	a, err := write(t, c, &guestpb.WriteFileRequest{File: at(dir, "a/b/c"), Parents: true}, big)
	sum := sha256.Sum256([]byte(big))
	if err != nil || !a.Created || a.Size != uint64(len(big)) || content("a/b/c") != big {
		t.Fatalf("a new file: %+v, %v", a, err)
	}
	must(t, os.Chmod(filepath.Join(dir, "a/b/c"), 0o751))
	if a, err = write(t, c, &guestpb.WriteFileRequest{File: at(dir, "a/b/c"), IfSha256: sum[:]}, "short"); err != nil || a.Created || content("a/b/c") != "short" {
		t.Errorf("over an old one: %+v, %v", a, err)
	}
	if st, _ := os.Stat(filepath.Join(dir, "a/b/c")); st.Mode().Perm() != 0o751 {
		t.Errorf("its mode became %v", st.Mode())
	}
	if a, err = write(t, c, &guestpb.WriteFileRequest{File: at(dir, "a/b/c"), Append: true}, "er yet"); err != nil || a.Size != 11 || content("a/b/c") != "shorter yet" {
		t.Errorf("at the end: %+v, %v, %q", a, err, content("a/b/c"))
	}
	must(t, os.Symlink("b/c", filepath.Join(dir, "a/link")))
	must(t, os.Symlink(filepath.Join(dir, "a/link"), filepath.Join(dir, "abslink")))
	if a, err = write(t, c, &guestpb.WriteFileRequest{File: at(dir, "abslink")}, "through links"); err != nil || a.Created || content("a/b/c") != "through links" {
		t.Errorf("through links: %+v, %v", a, err)
	}
	must(t, os.MkdirAll(filepath.Join(dir, "a/deep"), 0o755)) // ".." in a link's target is the parent of the real folder
	must(t, os.Symlink("a/deep", filepath.Join(dir, "to")))
	must(t, os.Symlink("../up", filepath.Join(dir, "a/deep/link")))
	if _, err := write(t, c, &guestpb.WriteFileRequest{File: at(dir, "to/link")}, "up"); err != nil || content("a/up") != "up" {
		t.Errorf("through a link in a linked folder: %v", err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "a/link")); err != nil || to != "b/c" {
		t.Errorf("the link: %q, %v", to, err)
	}
	for name, h := range map[string]*guestpb.WriteFileRequest{
		"changed since": {File: at(dir, "a/b/c"), IfSha256: sum[:]},
		"gone since":    {File: at(dir, "gone"), IfSha256: sum[:]},
		"there already": {File: at(dir, "a/b/c"), IfAbsent: true},
	} {
		if _, err := write(t, c, h, "other"); fault.KindOf(err) != fault.Rejected {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := strings.Repeat("x", engine.MaxFileWrite)
	if a, err = write(t, c, &guestpb.WriteFileRequest{File: at(dir, "large")}, large); err != nil || a.Size != engine.MaxFileWrite || content("large") != large {
		t.Errorf("the largest file: %v", err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "a/b/.osaurus-*")); err != nil || len(names) > 0 {
		t.Errorf("%q are left, %v", names, err)
	}
}

func TestList(t *testing.T) {
	c, dir := client(t), t.TempDir()
	for i := range 3000 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d", i)), []byte("12345"), 0o640))
	}
	must(t, os.Mkdir(filepath.Join(dir, "00 folder"), 0o755))
	must(t, os.Symlink("../x", filepath.Join(dir, "00 link")))
	r, err := c.List(t.Context(), &guestpb.ListFolderRequest{Folder: at(dir, "."), Limit: 4})
	must(t, err)
	var got []string
	for _, e := range r.Entries {
		size := e.Info.Size
		if e.Info.Kind != string(engine.RegularFile) {
			size = 0 // depends on the file system
		}
		got = append(got, fmt.Sprintf("%s %s %d %o %s", e.Name, e.Info.Kind, size, e.Info.Mode&0o100, e.Target))
	}
	if strings.Join(got, "|") != "00 folder folder 0 100 |00 link link 0 100 ../x|0000 file 5 0 |0001 file 5 0 " || !r.Truncated {
		t.Errorf("%q, truncated %v", got, r.Truncated)
	}
	far := t.TempDir() // with links whose targets together are too long for a message
	const links, length = 1200, 1000
	for i := range links {
		must(t, os.Symlink(strings.Repeat("x", length), filepath.Join(far, fmt.Sprintf("%04d", i))))
	}
	if r, err = c.List(t.Context(), &guestpb.ListFolderRequest{Folder: at(far, ".")}); err != nil || len(r.Entries[0].Target) != length || len(r.Entries[links-1].Target) != 0 {
		t.Errorf("long links: %v", err)
	}
	if r, err = c.List(t.Context(), &guestpb.ListFolderRequest{Folder: at(dir, ".")}); err != nil || len(r.Entries) != engine.MaxFolderEntries || !r.Truncated {
		t.Errorf("without a limit: %v", err)
	}
	if _, err = c.List(t.Context(), &guestpb.ListFolderRequest{Folder: at(dir, "0000")}); fault.KindOf(faultrpc.Decode("", "", err)) != fault.InvalidArgs {
		t.Errorf("of a file: %v", err)
	}
}

func TestSearch(t *testing.T) {
	c, dir := client(t), t.TempDir()
	for i := range 200 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), []byte(strings.Repeat("a line that matches\n", 50)), 0o644))
	}
	search := func(r *guestpb.SearchRequest) (n int, end *guestpb.SearchEnd, err error) {
		stream, err := c.Search(t.Context(), r)
		must(t, err)
		defer stream.Close()
		for stream.Receive() {
			n, end = n+len(stream.Msg().Matches), stream.Msg().End
		}
		return n, end, faultrpc.Decode("search", "", stream.Err())
	}
	if n, end, err := search(&guestpb.SearchRequest{Root: at(dir, "."), Pattern: "match"}); err != nil || n != engine.MaxMatches || !end.Truncated {
		t.Errorf("%d, %+v, %v", n, end, err)
	}
	if n, end, err := search(&guestpb.SearchRequest{Root: at(dir, "007"), Pattern: "match", Limit: 50}); err != nil || n != 50 || end.Truncated || end.Files != 1 {
		t.Errorf("%d, %+v, %v", n, end, err)
	}
	for _, bad := range []*guestpb.SearchRequest{{Root: at(dir, "."), Pattern: "a(b"}, {Root: at(dir, ".."), Pattern: "x"}, {Root: at(dir, "."), Pattern: "x", Include: "[a"}} {
		if _, _, err := search(bad); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
