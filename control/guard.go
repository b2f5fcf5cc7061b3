package control

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// minToken is the shortest token that is taken for a secret: rand.Text's length.
	minToken = 26
	// maxTCPConnections are more than clients need, and cost some 20 MiB.
	maxTCPConnections = 1 << 10
	// idleTimeout is how long a connection may be idle.
	idleTimeout = 2 * time.Minute
)

// ReadToken reads the token in a file of the home, and creates it if necessary.
func ReadToken(home config.Home, path string) (string, error) {
	const op = "read token"
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := home.Make(filepath.Dir(path)); err != nil {
			return "", err
		}
		fresh := rand.Text()
		return fresh, config.WriteFile(path, []byte(fresh+"\n"))
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, op, path, err).Advise("Make it readable for yourself, or delete it; a new one will be created.")
	}
	token := strings.TrimSpace(string(text))
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || len(token) < minToken {
		return "", fault.Newf(fault.Rejected, op, path, "others can read it, or it is not a token").Advise("Delete it; a new one will be created.")
	}
	return token, nil
}

// Guard admits requests to a TCP listener: those with its token, and of web pages
// only those from allowed origins. Checking the Host header defeats DNS rebinding.
type Guard struct {
	Token string
	// TokenFile is the path of the token in the home.
	TokenFile string
	// Hosts are the allowed names in the Host header.
	Hosts []string
	// Origins are the web pages that may call.
	Origins []string
	// OtherHost and OtherOrigin are the advice when a host or a page is refused.
	OtherHost, OtherOrigin string
	// Refuse answers a request that is not admitted, with this HTTP status.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// LocalHosts returns the names of this computer for itself, and that of an address.
func LocalHosts(address string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(address); err == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

// ListenLimited listens on TCP for a bounded number of connections, since every
// program on this computer can connect.
func ListenLimited(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return limitConnections(l), nil
}

func limitConnections(l net.Listener) net.Listener {
	return netutil.LimitListener(l, maxTCPConnections)
}

// Server returns a server of admitted requests, for a listener of ListenLimited. It closes
// the connections of others.
func (g Guard) Server(next http.Handler, log *slog.Logger) *http.Server {
	admitted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := g.admit(r); err != nil {
			w.Header().Set("Connection", "close")
			g.Refuse(w, r, status, err)
			return
		}
		next.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: g.pages(admitted), MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// admit returns an HTTP status and the reason if a request is not admitted.
func (g Guard) admit(r *http.Request) (status int, err error) {
	const op = "check request"
	refused := func(subject, why, advice string) (int, error) {
		return http.StatusForbidden, fault.New(fault.Rejected, op, printable.Clip(subject), errors.New(why)).Advise(advice)
	}
	if !g.knows(r.Host) {
		return refused("Host "+r.Host, "unknown host name", g.OtherHost)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !slices.Contains(g.Origins, origins[0]) {
		return refused("Origin "+origins[0], "this page is not allowed to call the API", g.OtherOrigin)
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(bearer), []byte(g.Token)) != 1 {
		return http.StatusUnauthorized, fault.Newf(fault.Rejected, op, "Authorization", "missing or wrong token").
			Advise("Send the header Authorization: Bearer TOKEN, with the token that is in " + g.TokenFile + " of the home.")
	}
	return http.StatusOK, nil
}

// knows reports whether a Host header is allowed.
func (g Guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(g.Hosts, strings.Trim(host, "[]"))
}

// pages adds the CORS headers that allow the pages in Origins to read answers, and
// answers preflight requests, which carry no token.
func (g Guard) pages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" || !slices.Contains(g.Origins, origin) || !g.knows(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "*")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
		w.WriteHeader(http.StatusNoContent)
	})
}
