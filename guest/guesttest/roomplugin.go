package guesttest

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
)

// pluginCases check what separates a plugin's programs from their agent's others. The suite's server
// has the plugins "rss" and "mail", and answers with the plugin that it takes the caller for.
func pluginCases() []roomCase {
	return []roomCase{{"WhoAsks", pluginAsks}, {"Job", pluginJob}, {"Offline", pluginOffline}, {"Apart", pluginApart}}
}

// as runs a script as a program of a plugin.
func (a *agent) as(ctx context.Context, t *testing.T, plugin config.PluginID, script string) (string, engine.Exit) {
	t.Helper()
	return a.command(ctx, t, engine.Command{Args: sh(script), Plugin: plugin, Env: []string{"OSAURUS_PLUGIN=" + string(plugin)}})
}

const whichPlugin = "osaurus-host config get plugin"

// pluginAsks checks that the guest decides which plugin a program belongs to.
func pluginAsks(ctx context.Context, t *testing.T, alice, bob *agent) {
	for _, script := range []string{
		whichPlugin, "cd / && " + whichPlugin, "setsid sh -c '" + whichPlugin + "' | cat",
		"mkfifo /tmp/said; (setsid " + whichPlugin + " >/tmp/said 2>&1 &); cat /tmp/said; rm /tmp/said", // orphaned
	} {
		if out, exit := alice.as(ctx, t, "rss", script); out != "rss" || exit.Status() != 0 {
			t.Errorf("%q is of %q, %+v", script, out, exit)
		}
	}
	refused := func(who, out string, exit engine.Exit) {
		t.Helper()
		if exit.Status() == 0 || strings.Contains(out, "rss\n") || out == "rss" {
			t.Errorf("%s: %q, %+v", who, out, exit)
		}
	}
	out, exit := alice.as(ctx, t, "mail", "OSAURUS_PLUGIN=rss "+whichPlugin)
	refused("another plugin", out, exit)
	out, exit = alice.run(ctx, t, "OSAURUS_PLUGIN=rss "+whichPlugin)
	refused("the agent", out, exit)
	out, exit = alice.asRoot(ctx, t, "OSAURUS_PLUGIN=rss "+whichPlugin)
	refused("the root of the room", out, exit)
	out, exit = alice.as(ctx, t, "gone", whichPlugin)
	refused("a plugin that is not installed", out, exit)
	if out, exit := alice.run(ctx, t, "OSAURUS_PLUGIN=notes "+whichPlugin); out != "notes" || exit.Status() != 0 {
		t.Errorf("the agent in a name space is %q, %+v", out, exit)
	}
	if out, exit := bob.as(ctx, t, "mail", whichPlugin); out != "mail" || exit.Status() != 0 {
		t.Errorf("bob's plugin is %q, %+v", out, exit)
	}
}

// pluginJob runs a plugin's daemon, which is a job.
func pluginJob(ctx context.Context, t *testing.T, alice, _ *agent) {
	job, err := alice.room().StartJob(ctx, engine.JobCommand{Args: sh(whichPlugin + "; cat /proc/net/dev"), Env: []string{"OSAURUS_PLUGIN=rss"}, Plugin: "rss", Network: engine.NoNetwork})
	if err != nil {
		t.Fatal(err)
	}
	for job.Running {
		if job, err = alice.room().WaitJob(ctx, job.ID, engine.MaxJobWait); err != nil {
			t.Fatal(err)
		}
	}
	tail, err := alice.room().TailJob(ctx, job.ID, 0, 0)
	if text := string(tail.Data); err != nil || job.Status() != 0 || !strings.HasPrefix(text, "rss") || !strings.Contains(text, "lo:") || strings.Contains(text, "eth0") {
		t.Errorf("%+v, %v: %s", job, err, tail.Data)
	}
}

// pluginOffline checks that an offline command has only a loopback network of its own, and that
// commands of a plugin with an address share one network.
func pluginOffline(ctx context.Context, t *testing.T, alice, _ *agent) {
	const devices = "sed -n 's/: .*//p' /proc/net/dev | tr -d ' ' | sort | tr '\\n' ' '; readlink /proc/self/ns/net"
	command := func(network engine.PluginNetwork, address netip.Addr) (string, string) {
		t.Helper()
		out, exit := alice.command(ctx, t, engine.Command{Args: sh(devices), Plugin: "rss", Network: network, Address: address})
		names, space, ok := strings.Cut(out, "net:")
		if !ok || exit.Status() != 0 {
			t.Fatalf("%+v: %s", exit, out)
		}
		return strings.TrimSpace(names), space
	}
	room, _ := alice.run(ctx, t, devices)
	online, with := command(engine.NetworkOfRoom, netip.Addr{})
	if online+" net:"+with != room || !strings.Contains(online, "eth0") {
		t.Errorf("online are %s %s, in the room %s", online, with, room)
	}
	first, one := command(engine.NoNetwork, netip.Addr{})
	second, two := command(engine.NoNetwork, netip.Addr{})
	if first != "lo" || second != "lo" || one == two || one == with {
		t.Errorf("offline are %q %s and %q %s", first, one, second, two)
	}
	own := alice.suite.Join(alice.User + "-rss")
	names, one := command(engine.NetworkOfPlugin, own)
	_, two = command(engine.NetworkOfPlugin, own)
	if names != "eth0 lo" || one != two || one == with {
		t.Errorf("with a network of its own: %q %s and then %s", names, one, two)
	}
	out, exit := alice.command(ctx, t, engine.Command{Args: sh("exec ./intruder dial tcp " + alice.suite.Server + " 60"), Plugin: "rss", Network: engine.NetworkOfPlugin, Address: own})
	if out != "connected: hello" {
		t.Errorf("it connects: %+v %s", exit, out)
	}
}

// pluginApart checks that a plugin's program cannot access its agent's others, through which it could
// call the bridge as the agent.
func pluginApart(ctx context.Context, t *testing.T, alice, _ *agent) {
	alice.begin(ctx, t, "echo $$ >victim.pid; exec sleep 1000")
	const look = `cat /proc/$(cat victim.pid)/environ; ls /proc/$(cat victim.pid)/root/`
	eventually(ctx, t, func() bool { // the agent itself does, once the pid is written
		out, exit := alice.run(ctx, t, look)
		return exit.Status() == 0 && strings.Contains(out, secret) && strings.Contains(out, "workspace")
	})
	for _, network := range []engine.PluginNetwork{engine.NetworkOfRoom, engine.NoNetwork} {
		out, exit := alice.command(ctx, t, engine.Command{Args: sh(look), Plugin: "rss", Network: network})
		if exit.Status() == 0 || strings.Contains(out, secret) || strings.Contains(out, "workspace") {
			t.Errorf("a plugin looks into its agent: %+v %s", exit, out)
		}
	}
}
