package daemon_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/freeport"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/machine"
)

// deaf is a backend whose guests do not shut down when they are asked to.
type deaf struct{ *hosttest.Backend }

func (d deaf) Boot(ctx context.Context, s config.Settings, tracker *progress.Tracker) (machine.Guest, boot.Machine, error) {
	g, m, err := d.Backend.Boot(ctx, s, tracker)
	return deafGuest{g}, m, err
}

type deafGuest struct{ machine.Guest }

func (deafGuest) Shutdown(context.Context) error { return errors.New("no answer") }

// Run returns an error at the end once, and releases the home.
func TestTroubleAtTheEnd(t *testing.T) {
	home := newHome(t, "home")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := daemon.Run(ctx, daemon.Options{Home: home, Backend: deaf{new(hosttest.Backend)}, Ready: func(*control.Server) {
		defer cancel()
		client, err := control.Connect(t.Context(), home, "test")
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
			t.Error(err)
		}
	}})
	if err == nil || strings.Count(err.Error(), "no answer") != 1 {
		t.Errorf("it ended with %v", err)
	}
	serve(t, daemon.Options{Home: home})
}

// A daemon ends when its home is deleted, and does not make it again.
func TestHomeIsDeleted(t *testing.T) {
	t.Parallel()
	home := newHome(t, "home")
	ended := make(chan error, 1)
	ready := make(chan bool)
	go func() {
		ended <- daemon.Run(t.Context(), daemon.Options{Home: home, Backend: &hosttest.Backend{}, Ready: func(*control.Server) { close(ready) }})
	}()
	<-ready
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(string(home)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Log(err)
	case <-time.After(limit):
		t.Fatal("it does not end")
	}
	if _, err := os.Stat(string(home)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home is there again: %v", err)
	}
}

// mcp.listen is refused while another program has the address.
func TestTakenAddressForMCP(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = client.SetConfig(t.Context(), &controlpb.SetConfigRequest{Settings: map[string]string{"mcp.listen": taken.Addr().String()}})
	if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("it is set: %v", err)
	}
}

// The daemon retries an address that another program had.
func TestAddressForMCPThatGetsFree(t *testing.T) {
	home, address := newHome(t, "home"), freeport.Address(t)
	taken, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := config.Edit(home, func(f *config.File) error { return f.Set("mcp.listen", address) }); err != nil {
		t.Fatal(err)
	}
	client, _ := serve(t, daemon.Options{Home: home})
	if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Get("http://" + address + "/mcp")
		if err == nil {
			r.Body.Close()
			if r.StatusCode != http.StatusUnauthorized {
				t.Errorf("it answers with %s", r.Status)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
