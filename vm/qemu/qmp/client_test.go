package qmp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/vm/qemu/qmp"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}` + "\n"

// server is a fake QEMU that answers each command by name.
func server(t *testing.T, answer func(command string, id uint64) string) net.Conn {
	client, conn := net.Pipe()
	t.Cleanup(func() { conn.Close() })
	go func() {
		fmt.Fprint(conn, greeting)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var r struct {
				Execute string
				ID      uint64
			}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("client sent %q: %v", lines.Text(), err)
			}
			if r.Execute == "qmp_capabilities" {
				fmt.Fprintf(conn, `{"return": {}, "id": %d}`+"\n", r.ID)
				continue
			}
			fmt.Fprint(conn, answer(r.Execute, r.ID))
		}
	}()
	return client
}

func TestCommandsAndEvents(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) { // QEMU has five seconds to answer
		var events []string
		c, err := qmp.Connect(t.Context(), server(t, func(command string, id uint64) string {
			switch command {
			case "query-status":
				return fmt.Sprintf(`{"event": "STOP", "timestamp": {}}`+"\n"+`{"event": "SHUTDOWN", "data": {"reason": "guest-reset"}}`+"\n"+`{"return": {"status": "paused"}, "id": %d}`+"\n", id)
			case "cont":
				return fmt.Sprintf(`{"id": %d, "error": {"class": "GenericError", "desc": "no"}}`+"\n", id)
			}
			return "" // no answer
		}), func(name string, data json.RawMessage) { events = append(events, name+string(data)) })
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Do(t.Context(), "query-status"); err != nil {
			t.Errorf("query-status = %v", err)
		}
		if got := strings.Join(events, " "); got != `STOP SHUTDOWN{"reason": "guest-reset"}` {
			t.Errorf("events: %s", got)
		}
		err = c.Do(t.Context(), "cont")
		if refused, ok := errors.AsType[*qmp.Error](err); !ok || refused.Class != "GenericError" {
			t.Errorf("cont = %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := c.Do(ctx, "stop"); fault.KindOf(err) != fault.Timeout || fault.AdviceOf(err) == "" {
			t.Errorf("unanswered command = %v", err)
		}
	})
}

func TestSilentPeer(t *testing.T) {
	for name, say := range map[string]string{"nothing": "", "no greeting": `{"event": "STOP"}` + "\n", "half a line": greeting[:20]} {
		client, conn := net.Pipe()
		go fmt.Fprint(conn, say)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := qmp.Connect(ctx, client, func(string, json.RawMessage) {}); fault.KindOf(err) != fault.Timeout {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		conn.Close()
	}
}

func TestPeerHangsUp(t *testing.T) {
	client, conn := net.Pipe()
	go func() { fmt.Fprint(conn, greeting); conn.Close() }()
	if _, err := qmp.Connect(t.Context(), client, func(string, json.RawMessage) {}); err == nil || fault.KindOf(err) == fault.Timeout {
		t.Errorf("Connect = %v", err)
	}
}

// FuzzConversation checks that no input makes the client panic or wait for ever.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(greeting + `{"return": {}, "id": 1}` + "\n" + `{"return": {"status": "running"}, "id": 2}` + "\n"))
	f.Add([]byte(greeting + greeting))
	f.Add([]byte(greeting + `{"return": {}, "error": {}, "id": 1}` + "\n"))
	f.Add([]byte(greeting + `{"return": {}, "id": 1}` + "\n" + `{"event": "STOP", "data": []}` + "\n" + `{"id": 2, "return": 7}`))
	f.Add([]byte(`{"error": {"class": "GenericError", "desc": "x"}}` + "\n"))
	f.Fuzz(func(t *testing.T, say []byte) {
		client, conn := net.Pipe()
		go func() {
			for r := bufio.NewReader(conn); ; {
				if _, err := r.ReadByte(); err != nil {
					return
				}
			}
		}()
		go func() { _, _ = conn.Write(say); conn.Close() }()
		c, err := qmp.Connect(t.Context(), client, func(string, json.RawMessage) {})
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.Do(t.Context(), "query-status")
		<-c.Done()
	})
}
