//go:build linux

package service_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/guesttest"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/guest/room"
	"osaurus-sandbox/guest/service"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/internal/printable"
	"osaurus-sandbox/internal/timetest"
)

// TestMain handles signals that this process was started with ignored, for example by nohup. Commands
// would inherit that, and a shell cannot trap an ignored signal.
func TestMain(m *testing.M) {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

// host is a System without a machine. Commands run on this computer.
type host struct {
	bootErr error

	mu     sync.Mutex
	boots  []*guestpb.HelloRequest
	clock  time.Time
	powers chan time.Duration
}

func (h *host) Boot(r *guestpb.HelloRequest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boots = append(h.boots, r)
	return h.bootErr
}

func (h *host) Info() *guestpb.InfoResponse {
	var rss uint64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages, _ := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
		rss = pages * uint64(os.Getpagesize())
	}
	return &guestpb.InfoResponse{Kernel: "evil\x1b[2J" + strings.Repeat("x", 5000), OwnMemory: rss}
}

func (h *host) SetTime(t time.Time) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = t
	return 5 * time.Second, nil
}

func (h *host) PowerOff(grace time.Duration) { h.powers <- grace }

// serve starts a service and returns how to dial it.
func serve(t *testing.T, h *host) guest.Dialer {
	t.Helper()
	h.powers = make(chan time.Duration, 1)
	manager, err := process.NewManager(process.Options{Cgroup: processtest.Cgroup(t)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	entries, err := net.Listen("unix", path+".entries")
	if err != nil {
		t.Fatal(err)
	}
	s := service.New(h, manager, room.NewManager(room.Options{}), t.TempDir(), "test")
	go func() { defer close(done); _ = s.Serve(l) }()
	handed := make(chan struct{})
	go func() { defer close(handed); _ = s.ServeEntries(entries) }()
	t.Cleanup(func() {
		l.Close()
		entries.Close()
		<-done
		<-handed
		manager.Close()
	})
	return func(ctx context.Context, port uint32) (net.Conn, error) {
		at, ok := map[uint32]string{guest.Port: path, guest.EntryPort: path + ".entries"}[port]
		if !ok {
			return nil, errors.New("wrong port")
		}
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	}
}

// patience is more than anything takes here on a busy host.
const patience = 30 * time.Second

func connected(t *testing.T, dial guest.Dialer) *guest.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := guest.Connect(ctx, dial, &guestpb.Boot{Hostname: "box"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestExec(t *testing.T) {
	timetest.NoLeaks(t)
	dial := serve(t, &host{})
	c := connected(t, dial)
	guesttest.RunExec(t, func(*testing.T) *guest.Client { return c })
}

func TestHello(t *testing.T) {
	h := &host{}
	dial := serve(t, h)
	ctx := context.Background()
	raw := rawClient(t, dial, protocol.Key{}.Header())
	good := func() *guestpb.HelloRequest {
		return &guestpb.HelloRequest{Version: protocol.Version, Key: make([]byte, protocol.KeySize), Boot: &guestpb.Boot{}}
	}
	if _, err := raw.Ping(ctx, &guestpb.PingRequest{}); wireKind(err) != fault.Unavailable {
		t.Errorf("ping before hello: %v", err)
	}
	for _, tc := range []struct {
		name string
		mend func(*guestpb.HelloRequest)
		kind fault.Kind
	}{
		{"old host", func(r *guestpb.HelloRequest) { r.Version-- }, fault.Rejected},
		{"new host", func(r *guestpb.HelloRequest) { r.Version++ }, fault.Rejected},
		{"short key", func(r *guestpb.HelloRequest) { r.Key = r.Key[1:] }, fault.InvalidArgs},
	} {
		r := good()
		tc.mend(r)
		if _, err := raw.Hello(ctx, r); wireKind(err) != tc.kind {
			t.Errorf("%s: %v, want kind %s", tc.name, err, tc.kind)
		}
	}
	if len(h.boots) != 0 {
		t.Error("a refused hello booted the guest")
	}
	for range 2 { // the second time as if the first answer was lost
		r, err := raw.Hello(ctx, good())
		if err != nil || r.GuestVersion != "test" {
			t.Fatal(r, err)
		}
	}
	if len(h.boots) != 1 {
		t.Errorf("the guest booted %d times", len(h.boots))
	}
	other := good()
	other.Key[31] ^= 1
	if _, err := raw.Hello(ctx, other); wireKind(err) != fault.Rejected {
		t.Errorf("hello with another key: %v", err)
	}
	if _, err := guest.Connect(ctx, dial, nil); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("connect to a greeted guest: %v", err)
	}
}

// TestKeyDemanded makes every call of the service Guest without the right key.
func TestKeyDemanded(t *testing.T) {
	dial := serve(t, &host{})
	connected(t, dial)
	for _, key := range []string{"", "00", strings.Repeat("0", 64), strings.Repeat("z", 64), strings.Repeat("0", 1<<12)} {
		raw := rawClient(t, dial, key)
		ctx := context.Background()
		calls := map[string]func() error{
			"ping":     func() error { _, err := raw.Ping(ctx, &guestpb.PingRequest{}); return err },
			"info":     func() error { _, err := raw.Info(ctx, &guestpb.InfoRequest{}); return err },
			"signal":   func() error { _, err := raw.Signal(ctx, &guestpb.SignalRequest{}); return err },
			"set time": func() error { _, err := raw.SetTime(ctx, &guestpb.SetTimeRequest{}); return err },
			"shutdown": func() error { _, err := raw.Shutdown(ctx, &guestpb.ShutdownRequest{}); return err },
			"exec": func() error {
				s, err := raw.Exec(ctx)
				if err != nil {
					return err
				}
				_ = s.Send(&guestpb.ExecRequest{What: &guestpb.ExecRequest_Start{Start: &guestpb.Start{Args: [][]byte{[]byte("true")}}}})
				_, err = s.Receive()
				return err
			},
		}
		for name, call := range calls {
			if err := call(); wireKind(err) != fault.Rejected {
				t.Errorf("%s with key %.10q: %v", name, key, err)
			}
		}
	}
}

func TestBootFails(t *testing.T) {
	dial := serve(t, &host{bootErr: fault.Newf(fault.Unavailable, "mount data", "/dev/vdb", "bad superblock").Advise("Reset the data disk.")})
	_, err := guest.Connect(context.Background(), dial, nil)
	if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) != "Reset the data disk." || !strings.Contains(err.Error(), "mount data /dev/vdb: bad superblock") {
		t.Errorf("%v (%s)", err, fault.AdviceOf(err))
	}
}

func TestConnectWaits(t *testing.T) {
	timetest.NoLeaks(t)
	dial := serve(t, &host{})
	tries := 0
	late := func(ctx context.Context, port uint32) (net.Conn, error) {
		if tries++; tries < 5 {
			return nil, unix.ECONNREFUSED
		}
		return dial(ctx, port)
	}
	c := connected(t, late)
	if err := c.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	never := func(context.Context, uint32) (net.Conn, error) { return nil, unix.ECONNREFUSED }
	if _, err := guest.Connect(ctx, guest.Dialer(never), nil); fault.KindOf(err) != fault.Timeout {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestCalls(t *testing.T) {
	h := &host{}
	c := connected(t, serve(t, h))
	ctx := context.Background()
	info, err := c.Info(ctx)
	if err != nil || strings.ContainsRune(info.Kernel, '\x1b') || len(info.Kernel) > printable.MaxText+8 || info.GuestVersion != "test" {
		t.Errorf("%+v %v", info, err)
	}
	now := time.Now()
	if off, err := c.SetTime(ctx, now); err != nil || off != 5*time.Second || !h.clock.Equal(now) {
		t.Errorf("%v %v", off, err)
	}
	if err := c.Shutdown(ctx, 3*time.Second); err != nil {
		t.Error(err)
	}
	if g := <-h.powers; g != 3*time.Second {
		t.Errorf("grace %v", g)
	}
	if b := h.boots[0]; b.Boot.Hostname != "box" || len(b.Entropy) < 32 || time.Since(time.Unix(0, b.TimeUnixNano)) > time.Minute {
		t.Errorf("hello %v", b)
	}
}

// rawClient returns a client that sends any key.
func rawClient(t *testing.T, dial guest.Dialer, key ...string) guestpbconnect.GuestClient {
	tr := &http.Transport{Protocols: protocol.Protocols(), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, guest.Port) }}
	t.Cleanup(tr.CloseIdleConnections)
	return guestpbconnect.NewGuestClient(&http.Client{Transport: keyed{tr, strings.Join(key, "")}}, "http://guest", protocol.ClientOptions())
}

type keyed struct {
	http.RoundTripper
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(protocol.KeyHeader, k.key)
	return k.RoundTripper.RoundTrip(r)
}

func wireKind(err error) fault.Kind { return fault.KindOf(faultrpc.Decode("call", "", err)) }
