// Package door keeps those out of listeners on TCP who do not have their token, and web pages that should not call.
package door

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
	// minToken is the least that is taken for a secret: rand.Text's length.
	minToken = 26
	maxToken = 1 << 10

	// maxConnections are more than clients need, and cost some 20 MiB.
	maxConnections = 1 << 10
	// maxHeaders and headerTimeout bound what somebody may say before it is known who
	// that is.
	maxHeaders    = 16 << 10
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection may have nothing to ask.
	idleTimeout = 2 * time.Minute
)

// Token is the token in a file of the home, made when it is first needed.
func Token(home config.Home, path string) (string, error) {
	const op = "read token"
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := home.Make(filepath.Dir(path)); err != nil {
			return "", err
		}
		fresh := rand.Text()
		return fresh, config.WriteFile(path, []byte(fresh+"\n"))
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, op, path, err).Advise("Make it readable for you.")
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > maxToken {
		return "", fault.Newf(fault.Rejected, op, path, "others can read it, or it is no token").Advise("Remove it; a new one is made.")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fault.New(fault.Unavailable, op, path, err).Advise("Make it readable for you, or remove it; a new one is made.")
	}
	t := strings.TrimSpace(string(text))
	if len(t) < minToken {
		return "", fault.Newf(fault.Rejected, op, path, "%d characters are too few", len(t)).Advise("Remove it; a new one is made.")
	}
	return t, nil
}

// Guard knows who may come in. Hosts keep a page's own domain from being pointed
// here.
type Guard struct {
	Token string
	// TokenFile is where in the home who may read it finds the token.
	TokenFile string
	// Hosts are the names that a request may have in its Host header.
	Hosts []string
	// Origins are the web pages that may call.
	Origins []string
	// OtherHost and OtherOrigin say what to do where a host or a page is refused.
	OtherHost, OtherOrigin string
}

// Hosts are the names of this computer for itself, and that of an address to listen on.
func Hosts(address string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(address); err == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

// Listen listens on TCP. Anybody on this computer can connect, and a guest that has a
// network: they hold up who has the token, and not the daemon.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return limit(l), nil
}

// limit has those wait who are more than maxConnections.
func limit(l net.Listener) net.Listener { return netutil.LimitListener(l, maxConnections) }

// Server is for connections of Listen's. What next answers is still to be admitted.
func (g Guard) Server(next http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: g.pages(next), MaxHeaderBytes: maxHeaders, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Admit says whether a request may come in, and if not, with which status of HTTP
// it is refused. Who is refused has to connect anew.
func (g Guard) Admit(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if status, err = g.admit(r); err != nil {
		w.Header().Set("Connection", "close")
	}
	return status, err
}

func (g Guard) admit(r *http.Request) (status int, err error) {
	const op = "check request"
	refused := func(subject, why, advice string) (int, error) {
		return http.StatusForbidden, fault.New(fault.Rejected, op, printable.Clip(subject), errors.New(why)).Advise(advice)
	}
	if !g.knows(r.Host) {
		return refused("Host "+r.Host, "it is not a name of this listener", g.OtherHost)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !slices.Contains(g.Origins, origins[0]) {
		return refused("Origin "+origins[0], "this page may not call", g.OtherOrigin)
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(bearer), []byte(g.Token)) != 1 {
		return http.StatusUnauthorized, fault.Newf(fault.Rejected, op, "Authorization", "no token, or not the right one").
			Advise("Send the header Authorization: Bearer TOKEN, with the token that is in " + g.TokenFile + " of the home.")
	}
	return http.StatusOK, nil
}

// knows reports whether a Host header has one of the listener's names.
func (g Guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(g.Hosts, strings.Trim(host, "[]"))
}
