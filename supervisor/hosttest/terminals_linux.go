package hosttest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/files"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/network"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/service"
	"osaurus-sandbox/guest/shell"
)

// greetLimit is how long a service in this process may take to answer.
const greetLimit = 30 * time.Second

// terminals serves shells, jobs and files with the guest's own code, and runs this host's
// programs without isolation. Each user has a home.
type terminals struct {
	guestpbconnect.UnimplementedGuestHandler
	guest     *Guest
	dir       string
	processes *process.Manager
	shells    *shell.Manager
	jobs      *job.Manager
	server    *http.Server
	client    *guest.Client
}

// newTerminals starts a server of the guest protocol.
func newTerminals(g *Guest) (_ *terminals, err error) {
	t := &terminals{guest: g, server: &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: greetLimit}}
	t.server.Protocols.SetUnencryptedHTTP2(true)
	t.server.Protocols.SetHTTP1(true)
	if t.dir, err = os.MkdirTemp("", "hosttest-"); err != nil {
		return nil, err
	}
	if t.processes, err = process.NewManager(process.Options{}); err != nil {
		return nil, err
	}
	t.shells = shell.NewManager(t.processes, func(_ context.Context, user string) (shell.Room, error) { return t.room(user) })
	t.jobs = job.NewManager(t.processes, func(_ context.Context, user string) (job.Room, error) { return t.room(user) })
	l, err := net.Listen("unix", filepath.Join(t.dir, "socket"))
	if err != nil {
		return nil, err
	}
	toRooms, err := net.Listen("unix", filepath.Join(t.dir, "files"))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(t))
	service.ServeTerminals(mux, t.shells, t.jobs)
	service.ServePorts(mux, t.dial)
	mux.Handle(files.Handler())
	t.server.Handler = mux
	go func() { _ = t.server.Serve(l) }()
	go func() { _ = t.server.Serve(anyRoom{toRooms}) }()
	ctx, cancel := context.WithTimeout(context.Background(), greetLimit)
	defer cancel()
	t.client, err = guest.Connect(ctx, computer{g, func(ctx context.Context, port uint32) (net.Conn, error) {
		to := l
		if port == guest.EntryPort {
			to = toRooms
		}
		return new(net.Dialer).DialContext(ctx, "unix", to.Addr().String())
	}}, nil)
	return t, err
}

// computer implements guest.Machine.
type computer struct {
	guest *Guest
	guest.Dialer
}

func (c computer) Done() <-chan struct{} { return c.guest.done }

// anyRoom accepts connections for the files of any room.
type anyRoom struct{ net.Listener }

func (l anyRoom) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if _, err := protocol.ReadDataHeader(c); err == nil {
			return c, nil
		}
		_ = c.Close() // the client is gone
	}
}

// Hello accepts any key.
func (*terminals) Hello(_ context.Context, _ *guestpb.HelloRequest) (*guestpb.HelloResponse, error) {
	return &guestpb.HelloResponse{}, nil
}

// localRoom is a user's folder on this computer.
type localRoom struct{ user, home string }

func (t *terminals) room(user string) (localRoom, error) {
	if _, ok := t.guest.RoomConfig(config.LinuxUser(user)); !ok {
		return localRoom{}, noRoom(config.LinuxUser(user))
	}
	r := localRoom{user, filepath.Join(t.dir, user)}
	return r, errors.Join(os.MkdirAll(r.home, 0o700), os.MkdirAll(r.home+".jobs", 0o700), os.MkdirAll(r.home+".desk", 0o700))
}

func (r localRoom) Place(bool) process.Place                                         { return nil }
func (r localRoom) PluginPlace(config.PluginID, bool, []byte) (process.Place, error) { return nil, nil }
func (r localRoom) Home() string                                                     { return r.home }
func (r localRoom) JobLogs() (path, inside string)                                   { return r.home + ".jobs", r.home + ".jobs" }
func (r localRoom) Environment(bool) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.home, "USER=" + r.user, "LANG=C.UTF-8", "SHELL=/bin/bash", "TERM=xterm"}
}

func (r localRoom) Spool() (*os.Root, string, error) {
	dir, err := os.OpenRoot(r.home + ".desk")
	return dir, r.home + ".desk", err
}

func (r localRoom) Watch() func(bool) (oom, pids, quota bool) {
	return func(bool) (oom, pids, quota bool) { return false, false, false }
}

// close ends the shells, jobs and the server.
func (t *terminals) close() error {
	t.shells.Close()
	t.jobs.Close()
	t.processes.Close()
	t.client.Close()
	return errors.Join(t.server.Close(), os.RemoveAll(t.dir))
}

// dial connects to a port of this host, which is every room's.
func (t *terminals) dial(ctx context.Context, user string, port uint16) (*net.TCPConn, <-chan struct{}, error) {
	t.guest.mu.Lock()
	ended, ok := t.guest.ended[config.LinuxUser(user)]
	t.guest.mu.Unlock()
	if !ok {
		return nil, nil, noRoom(config.LinuxUser(user))
	}
	conn, err := network.DialLoopback(ctx, port, func(f func() error) error { return f() })
	return conn, ended, err
}

// ConnectPort implements engine.Engine.
func (g *Guest) ConnectPort(ctx context.Context, user config.LinuxUser, port config.Port) (engine.Connection, error) {
	return g.terminals.client.ConnectPort(ctx, user, port)
}

// Room returns a room whose programs run on this host.
func (g *Guest) Room(user config.LinuxUser) engine.Room {
	return room{g.terminals.client.Room(user), g, user}
}

// room is a room of the guest's own code, with commands and file paths of this host.
type room struct {
	engine.Room
	guest *Guest
	user  config.LinuxUser
}

func (r room) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	return r.guest.exec(ctx, r.user, cmd)
}

func (r room) Transcript(ctx context.Context, id config.SessionID) (string, uint64, error) {
	if err := r.guest.ask(ctx, "transcript", string(r.user), func() error { return nil }); err != nil {
		return "", 0, err
	}
	return r.Room.Transcript(ctx, id)
}
