package daemon_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/hosttest"
)

// listens answers connections to a port of this computer, which is the room in these tests.
func listens(t *testing.T, address string, answer func(net.Conn)) config.Port {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); answer(conn) }()
		}
	}()
	return config.Port(l.Addr().(*net.TCPAddr).Port)
}

// through sends a text to a forwarded port, closes its side and returns the answer.
func through(ctx context.Context, t *testing.T, way *control.Forwarding, port config.Port, text string) (string, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- way.Connect(ctx, port, conn) }()
	go func() {
		_, _ = io.WriteString(mine, text)
		_ = mine.(*net.TCPConn).CloseWrite()
	}()
	answer, err := io.ReadAll(mine)
	// What is refused is closed before its text is read, which resets it.
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	return string(answer), <-failed
}

// Connections to forwarded ports carry all bytes. The audit has the forward once, and other
// ports are refused.
func TestPorts(t *testing.T) {
	client, _ := serve(t, daemon.Options{Home: secretHome(t), Backend: &hosttest.Backend{}})
	alice := newDesk(t, client, "alice")
	alice.setSecret("TOKEN", canary)
	shouts := func(conn net.Conn) {
		text, err := io.ReadAll(conn) // until its end, which has to arrive
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(conn, strings.ToUpper(string(text))+canary)
	}
	port, other := listens(t, "127.0.0.1:0", shouts), listens(t, "127.0.0.1:0", shouts)
	silent := listens(t, "127.0.0.1:0", func(net.Conn) {})
	nobodys := config.Port(netip.MustParseAddrPort(freeport.Address(t)).Port())

	if _, err := client.Forward(t.Context(), "carol", []config.Port{port}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("nobody's: %v", err)
	}
	for _, list := range [][]uint32{nil, {0}, {1 << 16}, make([]uint32, 65)} {
		stream, err := client.Ports.Forward(t.Context(), &controlpb.ForwardPortsRequest{Agent: "alice", Ports: list})
		if err == nil && !stream.Receive() {
			err = stream.Err()
		}
		if fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("the ports %v: %v", list, err)
		}
	}
	way, err := client.Forward(t.Context(), "alice", []config.Port{port, silent, nobodys})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("much of it, ", 1<<17)
	for range 3 {
		if answer, err := through(t.Context(), t, way, port, long); err != nil || answer != strings.ToUpper(long)+canary {
			t.Errorf("%d bytes, %v", len(answer), err)
		}
	}
	if answer, err := through(t.Context(), t, way, silent, ""); err != nil || answer != "" {
		t.Errorf("one that says nothing: %q, %v", answer, err)
	}
	if answer, err := through(t.Context(), t, way, nobodys, "x"); fault.KindOf(err) != fault.NotFound || answer != "" {
		t.Errorf("one where nothing listens: %q, %v", answer, err)
	}
	if answer, err := through(t.Context(), t, way, other, "x"); fault.KindOf(err) != fault.Rejected || answer != "" {
		t.Errorf("one that is not forwarded: %q, %v", answer, err)
	}

	if _, err := client.Down(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if answer, err := through(t.Context(), t, way, port, "x"); fault.KindOf(err) != fault.Unavailable || answer != "" {
		t.Errorf("without a guest: %q, %v", answer, err)
	}
	if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if answer, err := through(t.Context(), t, way, port, "again"); err != nil || answer != "AGAIN"+canary {
		t.Errorf("in another guest: %q, %v", answer, err)
	}

	way.Close()
	conn, _ := net.Pipe()
	if err := way.Connect(t.Context(), port, conn); err == nil {
		t.Error("what is closed connects")
	}
	want := "forward " + port.String() + " " + silent.String() + " " + nobodys.String()
	timetest.Eventually(t, "its beginning and its end are on record, and no connection", func() bool {
		return recordOf(t, client) == want+" ok, "+want+" begun"
	})
}

// A connection ends with its forward and with its caller's context, even while the client
// reads nothing.
func TestPortsWhoseReaderStalls(t *testing.T) {
	client, _ := serve(t, daemon.Options{Backend: &hosttest.Backend{}})
	newDesk(t, client, "alice")
	left := make(chan error, 1)
	port := listens(t, "127.0.0.1:0", func(conn net.Conn) {
		_, _ = io.WriteString(conn, strings.Repeat("x", 1000))
		_, err := io.Copy(io.Discard, conn)
		left <- err
	})
	for name, end := range map[string]func(context.CancelFunc, *control.Forwarding){
		"its caller gives up":     func(giveUp context.CancelFunc, _ *control.Forwarding) { giveUp() },
		"it is forwarded no more": func(_ context.CancelFunc, way *control.Forwarding) { way.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			way, err := client.Forward(t.Context(), "alice", []config.Port{port})
			if err != nil {
				t.Fatal(err)
			}
			defer way.Close()
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			conn, reader := net.Pipe() // which takes a byte only when it is read
			defer reader.Close()
			over := make(chan error, 1)
			go func() { over <- way.Connect(ctx, port, conn) }()
			if _, err := reader.Read(make([]byte, 1)); err != nil {
				t.Fatal(err, <-over)
			}
			end(giveUp, way)
			for what, c := range map[string]chan error{"the call": over, "the connection in the room": left} {
				select {
				case <-c:
				case <-time.After(limit):
					t.Fatalf("%s goes on", what)
				}
			}
		})
	}
}

// Connections end when the forward does, and new ones are refused.
func TestPortsForwardedNoMore(t *testing.T) {
	client, _ := serve(t, daemon.Options{Backend: &hosttest.Backend{}})
	newDesk(t, client, "alice")
	port := listens(t, "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	forward, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	ports, err := client.Ports.Forward(forward, &controlpb.ForwardPortsRequest{Agent: "alice", Ports: []uint32{uint32(port)}})
	if err != nil || !ports.Receive() {
		t.Fatal(err, ports.Err())
	}
	to := &controlpb.ConnectTo{Forward: ports.Msg().Id, Port: uint32(port)}
	dial := func() *connect.BidiStreamForClientSimple[controlpb.ConnectPortRequest, controlpb.Chunk] {
		stream, err := client.Ports.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stream.CloseRequest() })
		for _, r := range []*controlpb.ConnectPortRequest{{What: &controlpb.ConnectPortRequest_To{To: to}}, {What: &controlpb.ConnectPortRequest_Data{Data: []byte("x")}}} {
			if err := stream.Send(r); err != nil && !errors.Is(err, io.EOF) { // with EOF, Receive has the reason
				t.Fatal(err)
			}
		}
		return stream
	}
	before := dial()
	if m, err := before.Receive(); err != nil || string(m.Data) != "x" {
		t.Fatalf("%v, %v", m, err)
	}
	giveUp()
	if m, err := before.Receive(); fault.KindOf(err) != fault.Rejected {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := dial().Receive(); fault.KindOf(err) != fault.Rejected {
		t.Errorf("another: %v, %v", m, err)
	}
}

// Deleting an agent ends forwards of its ports, with the reason.
func TestPortsOfWhoIsDeleted(t *testing.T) {
	client, _ := serve(t, daemon.Options{Backend: &hosttest.Backend{}})
	newDesk(t, client, "alice")
	port := listens(t, "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	way, err := client.Forward(t.Context(), "alice", []config.Port{port})
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	newDesk(t, client, "bob") // who is nobody's concern
	if answer, err := through(t.Context(), t, way, port, "x"); err != nil || answer != "x" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "alice"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-way.Done():
	case <-time.After(limit):
		t.Fatal("it is forwarded still")
	}
	if err := way.Err(); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "deleted") {
		t.Error(err)
	}
}

// recordOf returns what the audit has of ports and commands, newest first.
func recordOf(t *testing.T, client *control.Client) string {
	t.Helper()
	var list []string
	for e, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{Agent: "alice"})) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Action, "forward") || strings.HasPrefix(e.Action, "exec") {
			list = append(list, e.Action+" "+e.Subject+" "+e.Outcome)
		}
	}
	return strings.Join(list, ", ")
}
