package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"osaurus-sandbox/bridge/client"
	"osaurus-sandbox/bridge/wire"
	"osaurus-sandbox/internal/fault"
)

// Environment variables.
const (
	envPlugin    = "OSAURUS_PLUGIN"        // whose secrets and settings to use
	envSocket    = "OSAURUS_BRIDGE_SOCKET" // another bridge, for tests
	envTokenFile = "OSAURUS_TOKEN_FILE"    // another token
)

// maxToken exceeds the size of all tokens.
const maxToken = 4 << 10

// bridge returns a client with the token of the user who runs the program.
func (s system) bridge() (*client.Client, error) {
	file := s.env(envTokenFile)
	if file == "" {
		name := "root"
		if uid := os.Getuid(); uid != 0 {
			u, err := user.LookupId(strconv.Itoa(uid)) // $USER may name somebody else
			if err != nil {
				return nil, noToken(strconv.Itoa(uid), err)
			}
			name = u.Username
		}
		var err error
		if file, err = tokenFile(wire.TokenDir, name); err != nil {
			return nil, err
		}
	}
	token, err := readToken(file)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Socket: s.env(envSocket), Token: token, Plugin: s.plugin()}), nil
}

// plugin returns the plugin whose secrets and settings to use: the environment names it, or else
// the current folder does, because tools run in their plugin's folder.
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
		return "" // not a plugin's folder
	}
	return name
}

// tokenFile returns the path of a user's token. Root has none of its own, and uses the only one in
// its room, which is the agent's.
func tokenFile(dir, name string) (string, error) {
	if name != "root" {
		return filepath.Join(dir, name+".token"), nil
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.token"))
	if len(found) != 1 {
		return "", noToken(name, errors.New("no agent has one here"))
	}
	return found[0], nil
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

// noToken returns the error for a missing or unreadable token.
func noToken(subject string, err error) error {
	advice := "The host gives each agent a token when its room starts: run this in an agent's sandbox. If this is one, its host has no bridge."
	if errors.Is(err, os.ErrPermission) {
		advice = "Only its agent can read a token: run this as the agent."
	}
	return fault.New(fault.Unavailable, "read the token", subject, err).Advise(advice)
}
