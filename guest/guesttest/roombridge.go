package guesttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/protocol"
)

// bridgeCases are how programs in rooms reach the host, and as whom.
func bridgeCases() []roomCase {
	return []roomCase{
		{"Asks", bridgeAsks}, {"Files", bridgeFiles}, {"Replacing", bridgeReplacing}, {"NetworkNone", bridgeWithoutNetwork}, {"WithoutKey", bridgeWithoutKey},
	}
}

// moreBridgeCases are between the guest's first process and the host, whatever else is in
// the guest.
func moreBridgeCases() []roomCase {
	return []roomCase{{"StolenToken", bridgeStolen}, {"RootOfRoom", bridgeRoomRoot}, {"NewToken", bridgeNewToken}}
}

// The server of the suite answers with the user whom it takes the caller for.
const (
	older    = "/tmp/osaurus-bridge.sock"
	notKnown = "401"
	asIs     = protocol.BridgeSocket
)

// tokenFile is where an agent's programs find their token.
func (a *agent) tokenFile() string { return protocol.TokenDir + "/" + string(a.User) + ".token" }

// asks has the agent ask the host with a token who it is.
func (a *agent) asks(ctx context.Context, t *testing.T, socket, token string) string {
	t.Helper()
	out, _ := a.command(ctx, t, engine.Command{Args: []string{"./intruder", "ask", socket, token}})
	return out
}

// guestAsks has the guest's root ask. Its program does not lie in a home, where it
// would be seen as root's from then on.
func (h *House) guestAsks(ctx context.Context, t *testing.T, socket, token string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.Workspace, "intruder"), h.Intruder, 0o755); err != nil {
		t.Fatal(err)
	}
	return output(ctx, t, h.Client, "[ -x /tmp/ask ] || cp /workspace/intruder /tmp/ask; /tmp/ask ask "+socket+" "+token)
}

// isAnswered says that the agent's own programs ask as the agent.
func (a *agent) isAnswered(ctx context.Context, t *testing.T) {
	t.Helper()
	if out, exit := a.run(ctx, t, "osaurus-host config get who"); out != string(a.User) || exit.Status() != 0 {
		t.Errorf("%s is to the host %+v %s", a.User, exit, out)
	}
}

func bridgeAsks(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, a := range []*agent{alice, bob} {
		a.isAnswered(ctx, t)
		for _, socket := range []string{asIs, older} {
			if got := a.asks(ctx, t, socket, a.token); got != fmt.Sprintf(`200 {"value":%q}`, a.User) {
				t.Errorf("%s at %s: %s", a.User, socket, got)
			}
			if got := a.asks(ctx, t, socket, "nobodys"); !strings.HasPrefix(got, notKnown) {
				t.Errorf("a token of nobody's: %s", got)
			}
		}
		out, exit := a.asRoot(ctx, t, "OSAURUS_PLUGIN=test osaurus-host config get who")
		if out != string(a.User) || exit.Status() != 0 {
			t.Errorf("the root of the room is %+v %s", exit, out)
		}
	}
}

// bridgeFiles: what is there for the bridge is whose it should be, and the token nobody
// else's.
func bridgeFiles(ctx context.Context, t *testing.T, alice, bob *agent) {
	const shim = "/usr/local/bin/osaurus-host"
	out, _ := alice.command(ctx, t, engine.Command{Args: []string{"./intruder", "modes", protocol.TokenDir, alice.tokenFile(), asIs, older, shim, bob.tokenFile()}})
	want := strings.Join([]string{
		protocol.TokenDir + " 40711 0:0", fmt.Sprintf("%s 100600 %d:%d", alice.tokenFile(), alice.UID, alice.UID),
		asIs + " 140666 0:0", older + " 120777 0:0", shim + " 100555 0:0", bob.tokenFile() + " ENOENT",
	}, "\n")
	if out != want {
		t.Errorf("alice finds\n%s\nwant\n%s", out, want)
	}
	if out, _ := alice.run(ctx, t, "cat "+alice.tokenFile()+"; echo ."); out != alice.token+"." {
		t.Errorf("the file holds %d bytes, the token has %d", len(out)-1, len(alice.token))
	}
	if out, exit := alice.run(ctx, t, "ls "+protocol.TokenDir); exit.Status() == 0 {
		t.Errorf("tokens are listed: %s", out)
	}
	if out, _ := alice.asRoot(ctx, t, "ls "+protocol.TokenDir); out != string(alice.User)+".token" {
		t.Errorf("in alice's room there are %s", out)
	}
	for _, a := range []*agent{alice, bob} {
		hits, _ := a.asRoot(ctx, t, "find / -xdev -name '*.token' 2>/dev/null; find /run -name '*.token'")
		if hits != a.tokenFile() {
			t.Errorf("the root of %s finds %s", a.User, hits)
		}
	}
}

// bridgeStolen: with alice's token in hand, bob gets nothing.
func bridgeStolen(ctx context.Context, t *testing.T, alice, bob *agent) {
	nothing := func(who, got string) {
		t.Helper()
		if !strings.HasPrefix(got, notKnown) || strings.Contains(got, string(alice.User)) {
			t.Errorf("%s with alice's token: %s", who, got)
		}
	}
	nothing("bob", bob.asks(ctx, t, asIs, alice.token))
	nothing("bob", bob.asks(ctx, t, older, alice.token))
	out, _ := bob.asRoot(ctx, t, bob.Home+"/intruder ask "+asIs+" "+alice.token)
	nothing("the root of bob's room", out)
	// It may call itself whoever it likes: in bob's room nobody is alice.
	out, _ = bob.asRoot(ctx, t, fmt.Sprintf("%s/intruder ask %s %s %d", bob.Home, asIs, alice.token, alice.UID))
	if out != "closed" {
		t.Errorf("alice's number in bob's room: %s", out)
	}
	out, exit := bob.run(ctx, t, "echo -n "+alice.token+" > mine && OSAURUS_TOKEN_FILE=mine osaurus-host config get who")
	if exit.Status() == 0 || strings.Contains(out, string(alice.User)) {
		t.Errorf("bob's program with alice's token: %+v %s", exit, out)
	}
	// The guest's own socket is not in a room; its root is nobody's agent.
	nothing("the guest's root", bob.house.guestAsks(ctx, t, asIs, alice.token))
	alice.isAnswered(ctx, t)
}

// bridgeRoomRoot: the root of a room is the room's agent and no other, under whatever
// number.
func bridgeRoomRoot(ctx context.Context, t *testing.T, alice, bob *agent) {
	for uid, want := range map[uint32]string{0: "200 ", bob.UID: "200 ", alice.UID: "closed", 1: "closed", 65534: "closed"} {
		out, _ := bob.asRoot(ctx, t, fmt.Sprintf("%s/intruder ask %s %s %d", bob.Home, asIs, bob.token, uid))
		if !strings.HasPrefix(out, want) || strings.Contains(out, string(alice.User)) {
			t.Errorf("as %d: %s", uid, out)
		}
	}
}

// bridgeReplacing: neither an agent nor the root of its room puts anything in the place
// of what programs trust.
func bridgeReplacing(ctx context.Context, t *testing.T, alice, bob *agent) {
	const shim = "/usr/local/bin/osaurus-host"
	var script strings.Builder
	for _, path := range []string{asIs, protocol.TokenDir, bob.tokenFile(), shim} {
		for _, try := range []string{
			"rm -rf %", "mv % /tmp/away", "ln -sfn /tmp/fake % && [ -L % ]", "cp /bin/sh %.new && mv -f %.new %", "echo fake > %", "chmod 777 %", "touch %/more",
		} {
			try = strings.ReplaceAll(try, "%", path)
			fmt.Fprintf(&script, "(%s) >/dev/null 2>&1 && echo 'did %s'\n", try, try)
		}
	}
	for _, run := range []func(context.Context, *testing.T, string) (string, engine.Exit){bob.run, bob.asRoot} {
		if out, _ := run(ctx, t, script.String()+"echo end"); out != "end" {
			t.Errorf("bob %s", out)
		}
	}
	if out, exit := bob.run(ctx, t, "rm -f "+older+" || ln -sf /tmp/fake "+older); exit.Status() == 0 {
		t.Errorf("bob's link: %s", out)
	}
	for _, a := range []*agent{alice, bob} {
		a.isAnswered(ctx, t)
		if got := a.asks(ctx, t, older, a.token); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s at %s: %s", a.User, older, got)
		}
	}
}

func bridgeWithoutNetwork(ctx context.Context, t *testing.T, alice, _ *agent) {
	room := alice.RoomConfig
	room.Network = engine.RoomAlone
	if _, err := alice.house.Client.EnsureRoom(ctx, room, alice.token); err != nil {
		t.Fatal(err)
	}
	alice.isAnswered(ctx, t)
}

// bridgeWithoutKey: a program that is not the relay gets no answer, with whatever token
// and as whoever: only the guest's root can get as far as the port.
func bridgeWithoutKey(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, token := range []string{alice.token, bob.token, "OSAUBRG1"} {
		if got := bob.house.guestAsks(ctx, t, fmt.Sprint(protocol.BridgePort), token); got != "closed" {
			t.Errorf("without the key: %s", got)
		}
	}
	if got := bob.asks(ctx, t, fmt.Sprint(protocol.BridgePort), bob.token); !strings.HasPrefix(got, "refused") {
		t.Errorf("from a room: %s", got)
	}
}

// bridgeNewToken: another token takes the place of the last in a room that is there,
// and none is none.
func bridgeNewToken(ctx context.Context, t *testing.T, _, bob *agent) {
	victim := bob.begin(ctx, t, "sleep 1000")
	old := bob.token
	bob.token = bob.house.Mint(bob.User, bob.UID)
	if bob.ensure(ctx, t) {
		t.Error("the room was made anew")
	}
	alive(ctx, t, bob, victim)
	bob.isAnswered(ctx, t)
	if got := bob.asks(ctx, t, asIs, old); !strings.HasPrefix(got, notKnown) {
		t.Errorf("the token before: %s", got)
	}
	if _, err := bob.house.Client.EnsureRoom(ctx, bob.RoomConfig, ""); err != nil {
		t.Error(err)
	}
	if out, exit := bob.run(ctx, t, "osaurus-host config get who"); exit.Status() == 0 || !strings.Contains(out, "token") {
		t.Errorf("without a token: %+v %s", exit, out)
	}
	bob.ensure(ctx, t)
	bob.isAnswered(ctx, t)
}
