//go:build linux

package relay_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/protocol"
)

// TestPlugin checks that the host learns the plugin of a process, and that a process whose plugin
// cannot be known is refused.
func TestPlugin(t *testing.T) {
	for name, tc := range map[string]struct {
		mark string
		err  error
		want config.PluginID
		shut bool
	}{
		"the agent's own": {}, "a plugin's": {mark: "rss-watch", want: "rss-watch"},
		"gone": {err: os.ErrNotExist, shut: true}, "no id": {mark: "../x", shut: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ uint32, c net.Conn) {
				fmt.Fprintln(c, c.(*protocol.BridgeConn).Plugin())
				_, _ = c.Read(make([]byte, 1))
			})
			asked := 0
			var mu sync.Mutex
			path := filepath.Join(r.dir, "room")
			s, err := r.Room(path, uint32(os.Getuid()), func(pid int) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = pid
				return tc.mark, tc.err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			said, err := bufio.NewReader(dial(t, path)).ReadString('\n')
			if tc.shut != (err != nil) || !tc.shut && said != string(tc.want)+"\n" {
				t.Errorf("the host received %q, %v", said, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if asked != os.Getpid() {
				t.Errorf("process %d was looked up", asked)
			}
		})
	}
}
