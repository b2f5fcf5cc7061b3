package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/bridge/bridgetest"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
)

var (
	alice = bridge.Holder{Agent: "0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "alice", User: "agent-alice", UID: 2001}
	bob   = bridge.Holder{Agent: "1B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", Name: "bob", User: "agent-bob", UID: 2002}
)

// world is a server with the agents alice and bob, and a service for every route.
type world struct {
	t        testing.TB
	server   *bridge.Server
	tokens   *bridge.Tokens
	services *services
	audit    *book
	log      *bytes.Buffer
	alice    bridge.Token
	bob      bridge.Token
	dial     func(uid uint32) net.Conn
}

// generous limits are never reached.
var generous = config.BridgeLimits{config.SecretCalls: 1e6, config.ConfigCalls: 1e6, config.InferenceCalls: 1e6, config.HTTPCalls: 1e6, config.DispatchCalls: 1e6, config.MemoryCalls: 1e6, config.LogCalls: 1e6}

func newWorld(t testing.TB, change ...func(*bridge.Options)) *world {
	w := plan(t, change...)
	sockets := map[uint32]string{}
	var listening sync.WaitGroup
	for _, uid := range []uint32{0, alice.UID, bob.UID} {
		sockets[uid] = filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", sockets[uid])
		if err != nil {
			t.Fatal(err)
		}
		listening.Go(func() {
			if err := w.server.Serve(bridgetest.As(l, uid, "")); err != nil {
				t.Error(err)
			}
		})
	}
	w.dial = func(uid uint32) net.Conn {
		c, err := net.Dial("unix", sockets[uid])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
		listening.Wait()
		w.settled()
	})
	return w
}

// in returns the world for another test.
func (w *world) in(t testing.TB) *world {
	other := *w
	other.t = t
	return &other
}

// plan returns a world that does not listen yet.
func plan(t testing.TB, change ...func(*bridge.Options)) *world {
	w := &world{t: t, tokens: bridge.NewTokens(), services: newServices(), audit: &book{}, log: new(bytes.Buffer)}
	w.alice, w.bob = w.tokens.Mint(alice), w.tokens.Mint(bob)
	o := bridge.Options{
		Tokens: w.tokens, Services: w.services.all(), Limits: always(generous), Audit: w.audit,
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	w.server = bridge.NewServer(o)
	goroutines := runtime.NumGoroutine()
	w.services.settled = func() {
		if _, fuzzing := t.(*testing.F); fuzzing {
			return // the fuzzer starts goroutines
		}
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%d goroutines are left", n-goroutines)
		}
	}
	return w
}

func (w *world) settled() { w.services.settled() }

func always(l config.BridgeLimits) func() config.BridgeLimits {
	return func() config.BridgeLimits { return l }
}

// request is a request of a program.
type request struct {
	method, path string
	token        string
	uid          uint32
	headers      map[string]string
	body         string
}

// as returns a request of an agent that names a plugin.
func (w *world) as(h bridge.Holder, method, path, body string) request {
	token := w.alice
	if h.UID == bob.UID {
		token = w.bob
	}
	return request{method: method, path: path, token: string(token), uid: h.UID, headers: map[string]string{"X-Osaurus-Plugin": "rss"}, body: body}
}

// response is an answer.
type response struct {
	status int
	header http.Header
	body   string
}

func (r response) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// ask makes a request on a new connection, as curl does.
func (w *world) ask(r request) response {
	w.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n", r.method, r.path)
	if r.token != "" {
		fmt.Fprintf(&text, "Authorization: Bearer %s\r\n", r.token)
	}
	for k, v := range r.headers {
		fmt.Fprintf(&text, "%s: %s\r\n", k, v)
	}
	if r.body != "" {
		fmt.Fprintf(&text, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(r.body))
	}
	text.WriteString("\r\n" + r.body)
	all := w.raw(r.uid, text.String(), 1)
	if len(all) != 1 {
		w.t.Fatalf("%s %s: %d answers", r.method, r.path, len(all))
	}
	return all[0]
}

// raw writes bytes and reads so many answers, or those that come until the
// connection is closed.
func (w *world) raw(uid uint32, text string, answers int) (all []response) {
	w.t.Helper()
	c := w.dial(uid)
	defer c.Close()
	go io.WriteString(c, text)
	return read(c, answers)
}

func read(c net.Conn, answers int) (all []response) {
	c.SetReadDeadline(time.Now().Add(timetest.Limit))
	for b := bufio.NewReader(c); len(all) < answers; {
		r, err := http.ReadResponse(b, nil)
		if err != nil {
			return all
		}
		body, _ := io.ReadAll(r.Body)
		if r.Close { // which is where ReadResponse puts it
			r.Header.Set("Connection", "close")
		}
		all = append(all, response{r.StatusCode, r.Header, string(body)})
	}
	return all
}

// book is an audit log in memory.
type book struct {
	mu      sync.Mutex
	entries []string
}

func (b *book) Record(_ context.Context, who bridge.Caller, action bridge.Action, subject string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	outcome := "ok"
	if err != nil {
		outcome = string(fault.KindOf(err))
	}
	if len(b.entries) == 1000 {
		return
	}
	b.entries = append(b.entries, fmt.Sprintf("%s %s/%s %s %s", action, who.Name, who.Plugin, subject, outcome))
}

func (b *book) all() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.entries, "\n")
}

// services implements every service. It answers or fails as told, and records the calls.
type services struct {
	settled func()

	mu    sync.Mutex
	err   error             // of everything, if set
	asked []string          // who asked for what
	kept  map[string]string // settings
	hold  func(context.Context) error

	has map[config.PluginID]bool // plugins, of every agent
}

func newServices() *services { return &services{kept: map[string]string{}} }

func (s *services) all() bridge.Services {
	return bridge.Services{
		Secrets: secretService{s}, Config: configService{s}, Inference: s, Tasks: s, Memory: s, Events: s, Plugins: s, Scripts: s, Log: s,
	}
}

// fails makes every call fail.
func (s *services) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *services) note(ctx context.Context, who bridge.Caller, what string, args ...any) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		if err := hold(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) < 1000 {
		s.asked = append(s.asked, fmt.Sprintf("%s/%s ", who.User, who.Plugin)+fmt.Sprintf(what, args...))
	}
	return s.err
}

// last returns the last call.
func (s *services) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return ""
	}
	return s.asked[len(s.asked)-1]
}

func (s *services) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// forget deletes the recorded calls and the settings.
func (s *services) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.kept = nil, map[string]string{}
}

type secretService struct{ *services }

func (s secretService) Get(ctx context.Context, who bridge.Caller, name config.SecretName) (secrets.Value, error) {
	if err := s.note(ctx, who, "secret %s", name); err != nil {
		return secrets.Value{}, err
	}
	if name == "NONE" {
		return secrets.Value{}, fault.New(fault.NotFound, "read secret", string(name), nil)
	}
	return secrets.ParseValue("s3cr3t <&> \"of\" " + string(who.Name))
}

type configService struct{ *services }

func (s configService) Get(ctx context.Context, who bridge.Caller, key bridge.ConfigKey) (string, error) {
	if err := s.note(ctx, who, "config %s", key); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.kept[fmt.Sprint(who.Agent, who.Plugin, key)]
	if !ok {
		return "", fault.New(fault.NotFound, "read config", string(key), nil)
	}
	return value, nil
}

func (s configService) Set(ctx context.Context, who bridge.Caller, key bridge.ConfigKey, value string) error {
	if err := s.note(ctx, who, "config %s=%s", key, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[fmt.Sprint(who.Agent, who.Plugin, key)] = value
	return nil
}

func (s *services) Chat(ctx context.Context, who bridge.Caller, c bridge.Chat, tell func(string) error) (string, error) {
	if err := s.note(ctx, who, "chat %s %v", c.Model, c.Messages); err != nil {
		return "", err
	}
	if tell == nil {
		return "hello, you", nil
	}
	for _, part := range []string{"hello,", " you"} {
		if err := tell(part); err != nil {
			return "", err
		}
		if c.Messages[0].Content == "break" {
			return "", fault.Newf(fault.Unavailable, "chat", "", "the model is gone").Advise("Start it.")
		}
	}
	return "hello, you", nil
}

func (s *services) Dispatch(ctx context.Context, who bridge.Caller, text, key string) (bridge.TaskID, error) {
	return "6f1d3a52-6a2e-4a3e-9d5c-6f6b8a0e8e11", s.note(ctx, who, "task %s %s", text, key)
}

func (s *services) Query(ctx context.Context, who bridge.Caller, text string) ([]bridge.Fact, error) {
	if err := s.note(ctx, who, "query %s", text); err != nil || text == "nothing" {
		return nil, err
	}
	return []bridge.Fact{{Content: "tea, no milk", Salience: 0.7, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}, nil
}

func (s *services) Store(ctx context.Context, who bridge.Caller, content string) error {
	return s.note(ctx, who, "store %s", content)
}

func (s *services) Emit(ctx context.Context, who bridge.Caller, topic bridge.Topic, payload json.RawMessage) error {
	return s.note(ctx, who, "emit %s %s", topic, payload)
}

func (s *services) Installed(_ config.AgentID, plugin config.PluginID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[plugin]
}

func (s *services) Create(ctx context.Context, who bridge.Caller, recipe json.RawMessage) (bridge.Created, error) {
	if err := s.note(ctx, who, "create %s", recipe); err != nil {
		return bridge.Created{}, err
	}
	return bridge.Created{Status: "installed", ID: "feeds", Name: "Feeds"}, nil
}

func (s *services) Call(ctx context.Context, who bridge.Caller, script, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"ok":false, "kind":"timeout"}`), s.note(ctx, who, "script %s tool %s %s", script, tool, arguments)
}

func (s *services) Append(ctx context.Context, who bridge.Caller, level bridge.Level, message string) error {
	return s.note(ctx, who, "log %s %s", level, message)
}
