//go:build !vzstandin

package e2e_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/engine/enginetest"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/vm/qemu"
)

// TestContract runs both conformance kits in an agent's room of a real guest: the SPI's
// as a client of the daemon, and the one for rooms in the daemon.
func TestContract(t *testing.T) {
	server, client := serve(t, "none", daemon.Options{Driver: &qemu.Driver{}})
	if _, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "kit"}); err != nil {
		t.Fatal(err)
	}
	shown, err := client.Agents.Show(t.Context(), &controlpb.ShowAgentRequest{Agent: "kit"})
	if err != nil {
		t.Fatal(err)
	}
	home := shown.Agent.Home
	audited := func(ctx context.Context, tenant engine.Tenant) (bool, error) {
		for r, err := range control.Messages(client.ListAudit(ctx, &controlpb.ListAuditRequest{Agent: "kit", Limit: 20})) {
			if err != nil || strings.Contains(r.Detail, string(tenant)) {
				return err == nil, err
			}
		}
		return false, nil
	}
	t.Run("N01 without a network the guest has no NIC", func(t *testing.T) {
		if devices := (&gatewayTest{Client: client}).script(t, "", "ls /sys/class/net"); devices != "lo" {
			t.Errorf("the guest has %s", devices)
		}
	})
	t.Run("Remote", func(t *testing.T) {
		enginetest.Run(t, enginetest.Suite{Name: "room over the API", Sandbox: client.Sandbox("kit"), Root: home, Audited: audited})
	})
	t.Run("Room", func(t *testing.T) {
		room := server.Sessions.Room("kit", "test")
		root := home + "/kit"
		if _, err := engine.Run(t.Context(), room, engine.Command{Args: []string{"mkdir", root}}); err != nil {
			t.Fatal(err)
		}
		enginetest.RunRoom(t, enginetest.RoomSuite{Name: "room", Room: room, Can: enginetest.Capabilities{Files: true, Shells: true, Jobs: true}, Root: root})
	})
}

// serve runs a daemon with a real guest until the test ends. The network is the home's setting.
func serve(t *testing.T, network string, o daemon.Options) (*control.Server, *control.Client) {
	t.Helper()
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	p := lab.DebianPack(t)
	lab.ShareImages(t, home, p)
	settings, err := json.Marshal(map[string]any{"pack": p.Dir, "toolbox": []string{}, "network": network, "secrets": "file", "memoryGB": 1, "diskGB": 1, "autoStart": false})
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WriteFile(home.SettingsFile(), settings); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan *control.Server, 1), make(chan error, 1)
	go func() {
		o.Home, o.Driver, o.Ready = home, lab.Driver(o.Driver), func(s *control.Server) { ready <- s }
		ended <- daemon.Run(ctx, o)
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var server *control.Server
	select {
	case server = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the daemon does not start")
	}
	client, err := control.Connect(t.Context(), home, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.Up(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	return server, client
}
