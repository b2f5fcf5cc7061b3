package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/supervisor/homelock"
)

const (
	// helloLimit is how long a daemon may take to answer Hello, which it does from memory, on a busy host.
	helloLimit = 15 * time.Second
	// A call may take hours, and a daemon that hangs closes no connection. So a
	// connection that is quiet for pingAfter is pinged, and closed with all its calls
	// after pingLimit, by which even an overloaded host has answered.
	pingAfter = 5 * time.Second
	pingLimit = 30 * time.Second
	// baseURL names the daemon in requests; connections go to the home's socket.
	baseURL = "http://sandbox"
)

// Client calls the daemon of a home. Its methods are those of the schema. Their errors
// are *fault.Error, as in the daemon.
type Client struct {
	controlpbconnect.SandboxClient
	Agents controlpbconnect.AgentsClient
	// Snapshots are what agents have changed outside of their homes.
	Snapshots controlpbconnect.SnapshotsClient
	Shells    controlpbconnect.ShellsClient
	Jobs      controlpbconnect.JobsClient
	Files     controlpbconnect.FilesClient
	Ports     controlpbconnect.PortsClient
	Memory    controlpbconnect.MemoryClient
	Tasks     controlpbconnect.TasksClient
	Topics    controlpbconnect.TopicsClient
	Secrets   controlpbconnect.SecretsClient
	Prompts   controlpbconnect.PromptsClient
	Network   controlpbconnect.NetworkClient
	Tools     controlpbconnect.ToolsClient
	History   controlpbconnect.HistoryClient
	Plugins   controlpbconnect.PluginsClient
	Installs  controlpbconnect.InstallsClient
	Artifacts controlpbconnect.ArtifactsClient
	Backups   controlpbconnect.BackupsClient
	Mounts    controlpbconnect.MountsClient
	home      config.Home
	transport *http.Transport
	end       context.CancelFunc
}

// Connect connects to the daemon of a home. The name is the client's in the audit. It
// fails with fault.Unavailable if there is no daemon. The caller closes the client.
func Connect(ctx context.Context, home config.Home, name string) (*Client, error) {
	const op = "connect to the daemon of"
	limited, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()
	conn, err := dial(limited, home)
	if err != nil {
		if notOwn := home.CheckOwner(); notOwn != nil {
			return nil, notOwn
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		err = errors.New("none is running")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, string(home), err).Advise("Start it: osaurus-sandbox up")
	}
	_ = conn.Close()
	return newClient(home, name), nil
}

// Hello greets the daemon. It fails with fault.Rejected if they have no version of the
// API in common.
func (c *Client) Hello(ctx context.Context) (*controlpb.HelloResponse, error) {
	limited, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()
	r, err := c.SandboxClient.Hello(limited, &controlpb.HelloRequest{VersionMin: VersionMin, VersionMax: VersionMax})
	if limited.Err() != nil && ctx.Err() == nil {
		return nil, c.silent(err)
	}
	return r, err
}

// silent returns the error for a daemon that does not answer.
func (c *Client) silent(err error) error {
	who, advice := "the daemon", "See `osaurus-sandbox logs` when it answers again."
	if has, ok := homelock.Holder(c.home); ok {
		who = has.String()
		advice = fmt.Sprintf("It is stopped or hangs. If `kill -CONT %d` does not help, end it: `kill -KILL %d`. The next command starts another.", has.PID, has.PID)
	}
	return fault.New(fault.Timeout, "greet the daemon", who, err).Advise(advice)
}

// Close closes all connections and ends their calls. Later calls fail.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.end()
}

func newClient(home config.Home, name string) *Client {
	settings := http2()
	settings.SendPingTimeout, settings.PingTimeout = pingAfter, pingLimit
	life, end := context.WithCancel(context.Background())
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			if life.Err() != nil {
				return nil, net.ErrClosed
			}
			if conn, err = dial(ctx, home); err != nil {
				return nil, err
			}
			context.AfterFunc(life, func() { _ = conn.Close() })
			return conn, nil
		},
		Protocols: onlyHTTP2(), HTTP2: settings,
		MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
	}
	named := roundTrip(func(r *http.Request) (*http.Response, error) {
		r.Header.Set(clientHeader, name)
		return t.RoundTrip(r)
	})
	client, options := &http.Client{Transport: named}, connect.WithClientOptions(clientOptions(), connect.WithInterceptors(faultrpc.Converter(decode)))
	return &Client{
		SandboxClient: controlpbconnect.NewSandboxClient(client, baseURL, options),
		Agents:        controlpbconnect.NewAgentsClient(client, baseURL, options),
		Snapshots:     controlpbconnect.NewSnapshotsClient(client, baseURL, options),
		Shells:        controlpbconnect.NewShellsClient(client, baseURL, options),
		Jobs:          controlpbconnect.NewJobsClient(client, baseURL, options),
		Files:         controlpbconnect.NewFilesClient(client, baseURL, options),
		Ports:         controlpbconnect.NewPortsClient(client, baseURL, options),
		Memory:        controlpbconnect.NewMemoryClient(client, baseURL, options),
		Tasks:         controlpbconnect.NewTasksClient(client, baseURL, options),
		Topics:        controlpbconnect.NewTopicsClient(client, baseURL, options),
		Secrets:       controlpbconnect.NewSecretsClient(client, baseURL, options),
		Prompts:       controlpbconnect.NewPromptsClient(client, baseURL, options),
		Network:       controlpbconnect.NewNetworkClient(client, baseURL, options),
		Tools:         controlpbconnect.NewToolsClient(client, baseURL, options),
		History:       controlpbconnect.NewHistoryClient(client, baseURL, options),
		Artifacts:     controlpbconnect.NewArtifactsClient(client, baseURL, options),
		Backups:       controlpbconnect.NewBackupsClient(client, baseURL, options),
		Mounts:        controlpbconnect.NewMountsClient(client, baseURL, options),
		Plugins:       controlpbconnect.NewPluginsClient(client, baseURL, options),
		Installs:      controlpbconnect.NewInstallsClient(client, baseURL, options),
		home:          home,
		transport:     t,
		end:           end,
	}
}

func dial(ctx context.Context, home config.Home) (net.Conn, error) {
	path, err := Socket(home)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

func onlyHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
