package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// The environment that counts.
const (
	envPlugin    = "OSAURUS_PLUGIN"        // the name space for secrets and config
	envSocket    = "OSAURUS_BRIDGE_SOCKET" // another bridge than the room's, for tests
	envTokenFile = "OSAURUS_TOKEN_FILE"    // and another token
)

// maxToken is more than any token has.
const maxToken = 4 << 10

// bridge returns a client for who runs the program.
func (s system) bridge() (*client.Client, error) {
	file := s.env(envTokenFile)
	if file == "" {
		var err error
		if file, err = tokenFile(wire.TokenDir, "/etc/passwd", os.Getuid()); err != nil {
			return nil, err
		}
	}
	token, err := readToken(file)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Socket: s.env(envSocket), Token: token, Plugin: s.plugin()}), nil
}

// plugin is the name space: what the environment says, or else the name of the
// folder, because a plugin's tools run in the plugin's folder.
func (s system) plugin() string {
	if p := s.env(envPlugin); p != "" {
		return p
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	name := strings.ToLower(filepath.Base(dir))
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
		return "" // no plugin's
	}
	return name
}

// tokenFile is where the token of a user is. Root of a room has none of its own
// and is the agent, whose token is the only one there.
func tokenFile(dir, passwd string, uid int) (string, error) {
	if uid == 0 {
		found, _ := filepath.Glob(filepath.Join(dir, "*.token"))
		if len(found) == 1 {
			return found[0], nil
		}
		return "", noToken("root", errors.New("no agent has one here"))
	}
	user, err := userOf(passwd, uid)
	if err != nil {
		return "", noToken(strconv.Itoa(uid), err)
	}
	return filepath.Join(dir, user+".token"), nil
}

// userOf looks a uid up. What $USER says may be another.
func userOf(passwd string, uid int) (string, error) {
	f, err := os.Open(passwd)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 2 && fields[2] == strconv.Itoa(uid) {
			return fields[0], nil
		}
	}
	return "", errors.New("no user of that number")
}

func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		cause := errors.Unwrap(err)
		return "", noToken(file, cmp.Or(cause, err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", noToken(file, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", noToken(file, errors.New("it is empty"))
	}
	return token, nil
}

// noToken says that there is no telling who asks.
func noToken(subject string, err error) error {
	advice := "The host gives one to each agent when the agent's sandbox starts: run this in an agent's sandbox. If this is one, its host has no bridge."
	if errors.Is(err, os.ErrPermission) {
		advice = "A token is its agent's alone: run this as the agent."
	}
	return fault.New(fault.Unavailable, "read the token", subject, err).Advise(advice)
}
