package boot_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
)

// othersShim calls the bridge from a room with another project's shim, made of curl and jq.
func othersShim(t *testing.T, h *home) {
	room := engine.RoomConfig{User: "agent-carol", UID: 2301, Home: guest.HomesDir + "/carol", Hostname: "carol"}
	script, err := os.ReadFile("testdata/others-shim.sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(h.workspace, "agents", "carol")
	if err := os.MkdirAll(filepath.Join(folder, "reader"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "shim"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	h.own("agents/carol", room.UID)
	if _, err := h.guest.Client.EnsureRoom(t.Context(), room, h.mint(room.User, room.UID)); err != nil {
		t.Fatal(err)
	}
	h.programs.SetSecret("tester", "reader", "KEY", "a value with \"quotes\" & more")
	before := len(h.programs.Told())

	// Each case is a command, its output and its exit code.
	cases := []struct{ command, prints string }{
		{"cd reader && ../shim secrets get KEY", "a value with \"quotes\" & more\n0"},
		{"OSAURUS_PLUGIN=Reader ./shim secrets get ABSENT", "404 get secret ABSENT: there is none\n1"},
		{"OSAURUS_PLUGIN='no plugin' ./shim config get k", "400 read plugin id \"no plugin\": not allowed\n1"},
		{"cd reader && ../shim config set last_sync 2026-11-22", "0"},
		{"cd reader && ../shim config get last_sync", "2026-11-22\n0"},
		{"./shim inference chat -m 'one two'", "one two\n0"},
		{"./shim agent dispatch " + strings.ToLower(string(tester)) + " 'read the news'", `{"task_id":"3B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E"}` + "\n0"},
		{"./shim agent dispatch 1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E x", "403 dispatch task: it is for another agent\n1"},
		{"./shim agent memory store 'she likes green'", "{}\n0"},
		{"./shim agent memory query green", `{"results":[{"content":"she likes green","salience":0.7,"created_at":"2023-11-14T22:13:20Z"}]}` + "\n0"},
		{`./shim events emit rss.new '{"n": 1}'`, "0"},
		{`echo '{"name":"feeds","description":"x","tools":[]}' | ./shim plugin create`, `{"status":"installed","plugin_id":"feeds","plugin_name":"feeds","tools":[]}` + "\n0"},
		{"./shim log warn 'it is late'", "0"},
		{`./shim config set k '"'`, "400 read body: it is not a JSON object\n1"},
	}
	var all strings.Builder
	want := ""
	for _, c := range cases {
		all.WriteString("(" + c.command + ") 2>&1; echo $?\n")
		want += c.prints + "\n"
	}
	var out bytes.Buffer
	exit, err := engine.Run(t.Context(), h.guest.Room(room.User), engine.Command{Args: []string{"sh", "-c", all.String()}, Dir: room.Home, Stdout: &out, Stderr: &out})
	if err != nil || exit.Status() != 0 {
		t.Fatalf("%+v %v: %s", exit, err, out.String())
	}
	if out.String() != want {
		t.Errorf("the shim prints\n%s\nand not\n%s", out.String(), want)
	}
	told := []string{
		"tester dispatch read the news ", `tester emit rss.new {"n": 1}`, "tester create feeds", "tester log warn it is late",
	}
	if got := h.programs.Told()[before:]; !slices.Equal(got, told) {
		t.Errorf("the host was told %q, and not %q", got, told)
	}
}
