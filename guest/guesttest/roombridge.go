package guesttest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/protocol"
)

// bridgeCases check how programs in rooms reach the host, and as which agent.
func bridgeCases() []roomCase {
	return []roomCase{
		{"Asks", bridgeAsks}, {"Files", bridgeFiles}, {"Replacing", bridgeReplacing}, {"NetworkNone", bridgeWithoutNetwork}, {"WithoutKey", bridgeWithoutKey},
		{"StolenToken", bridgeStolen}, {"RootOfRoom", bridgeRoomRoot}, {"NewToken", bridgeNewToken},
	}
}

// The suite's server answers with the user that it takes the caller for.
const (
	older    = "/tmp/osaurus-bridge.sock"
	notKnown = "401"
	asIs     = protocol.BridgeSocket
)

// tokenFile is the path of the token for the agent's programs.
func (a *agent) tokenFile() string { return protocol.TokenDir + "/" + string(a.User) + ".token" }

// asks sends the host a request of the agent with a token.
func (a *agent) asks(ctx context.Context, t *testing.T, socket, token string) string {
	t.Helper()
	out, _ := a.command(ctx, t, engine.Command{Args: []string{"./intruder", "ask", socket, token}})
	return out
}

// guestAsks sends a request of the guest's root. Its program is not in a home, since the kernel would
// cache root as the owner there.
func (s *Suite) guestAsks(ctx context.Context, t *testing.T, socket, token string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Workspace, "intruder"), s.Intruder, 0o755); err != nil {
		t.Fatal(err)
	}
	return output(ctx, t, s.Client, "[ -x /tmp/ask ] || cp /workspace/intruder /tmp/ask; /tmp/ask ask "+socket+" "+token)
}

// isAnswered checks that the host takes the agent's programs for the agent's.
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
				t.Errorf("an unknown token: %s", got)
			}
		}
		out, exit := a.asRoot(ctx, t, "OSAURUS_PLUGIN=test osaurus-host config get who")
		if out != string(a.User) || exit.Status() != 0 {
			t.Errorf("the root of the room is %+v %s", exit, out)
		}
	}
}

// bridgeFiles checks owners and modes of the bridge's files.
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

// bridgeStolen uses alice's token as bob.
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
	// It may change its user id: in bob's room nobody is alice.
	out, _ = bob.asRoot(ctx, t, fmt.Sprintf("%s/intruder ask %s %s %d", bob.Home, asIs, alice.token, alice.UID))
	if out != "closed" {
		t.Errorf("alice's number in bob's room: %s", out)
	}
	out, exit := bob.run(ctx, t, "echo -n "+alice.token+" > mine && OSAURUS_TOKEN_FILE=mine osaurus-host config get who")
	if exit.Status() == 0 || strings.Contains(out, string(alice.User)) {
		t.Errorf("bob's program with alice's token: %+v %s", exit, out)
	}
	alice.isAnswered(ctx, t)
}

// bridgeRoomRoot checks that the root of a room counts as the room's agent, and no other user id
// does.
func bridgeRoomRoot(ctx context.Context, t *testing.T, alice, bob *agent) {
	for uid, want := range map[uint32]string{0: "200 ", bob.UID: "200 ", alice.UID: "closed", 1: "closed", 65534: "closed"} {
		out, _ := bob.asRoot(ctx, t, fmt.Sprintf("%s/intruder ask %s %s %d", bob.Home, asIs, bob.token, uid))
		if !strings.HasPrefix(out, want) || strings.Contains(out, string(alice.User)) {
			t.Errorf("as %d: %s", uid, out)
		}
	}
}

// bridgeReplacing tries to replace the bridge's files as the agent and as the room's root.
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
	room.Address = netip.Addr{}
	if _, err := alice.suite.Client.EnsureRoom(ctx, room, alice.token); err != nil {
		t.Fatal(err)
	}
	alice.isAnswered(ctx, t)
}

// bridgeWithoutKey dials the host's port without the relay. Only the guest's root can do that, and
// it gets no answer.
func bridgeWithoutKey(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, token := range []string{alice.token, bob.token, "OSAUBRG1"} {
		if got := bob.suite.guestAsks(ctx, t, fmt.Sprint(protocol.BridgePort), token); got != "closed" {
			t.Errorf("without the key: %s", got)
		}
	}
	if got := bob.asks(ctx, t, fmt.Sprint(protocol.BridgePort), bob.token); !strings.HasPrefix(got, "refused") {
		t.Errorf("from a room: %s", got)
	}
}

// bridgeNewToken replaces the token of a running room, and removes it.
func bridgeNewToken(ctx context.Context, t *testing.T, _, bob *agent) {
	victim := bob.begin(ctx, t, "sleep 1000")
	old := bob.token
	bob.token = bob.suite.NewToken(bob.User, bob.UID)
	if bob.ensure(ctx, t) {
		t.Error("the room was made anew")
	}
	alive(ctx, t, bob, victim)
	bob.isAnswered(ctx, t)
	if got := bob.asks(ctx, t, asIs, old); !strings.HasPrefix(got, notKnown) {
		t.Errorf("the old token: %s", got)
	}
	if _, err := bob.suite.Client.EnsureRoom(ctx, bob.RoomConfig, ""); err != nil {
		t.Error(err)
	}
	if out, exit := bob.run(ctx, t, "osaurus-host config get who"); exit.Status() == 0 || !strings.Contains(out, "token") {
		t.Errorf("without a token: %+v %s", exit, out)
	}
	bob.ensure(ctx, t)
	bob.isAnswered(ctx, t)
}
