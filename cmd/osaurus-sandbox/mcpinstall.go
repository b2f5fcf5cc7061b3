package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/mcp"
	"osaurus-sandbox/control/mcp/install"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/machine"
	"osaurus-sandbox/tools"
)

// setup configures how a client starts this program.
type setup struct {
	agent, profile   string
	readOnly, dryRun bool
}

func newSetup() *setup { return &setup{profile: string(tools.Full)} }

func (s *setup) agentFlag() option {
	return withFlag(&s.agent, "agent", "the agent that the client works as (default one named after it)")
}

func (s *setup) profileFlag() option {
	return withFlag(&s.profile, "profile", "which tools: full, or lean for small models")
}

func dryRunFlag(to *bool) option {
	return withFlag(to, "dry-run", "show what would be changed, and change nothing")
}

// knownClients lists the clients for help.
func knownClients() option { return moreHelp("Clients: " + strings.Join(install.IDs(), ", ") + ".") }

func newMCPInstall() *cobra.Command {
	s := newSetup()
	return command("install CLIENT", s.install, moreHelp(ownTools), knownClients(),
		s.agentFlag(), s.profileFlag(),
		withFlag(&s.readOnly, "read-only", "let the agent read only"),
		dryRunFlag(&s.dryRun))
}

// install connects a client to the sandbox.
func (s *setup) install(ctx context.Context, c *call) error {
	client, command, err := s.resolve(c.args[0])
	if err != nil {
		return err
	}
	e, err := edit(client, s.dryRun, func(text []byte) ([]byte, error) {
		added, err := client.Add(text, command)
		if err == nil && !s.dryRun { // first: the entry does not work without the agent
			err = s.admit(ctx, c)
		}
		return added, err
	})
	if err == nil && !s.dryRun { // last: if installing fails, the agent's rights stay
		err = s.allow(ctx, c, client)
	}
	switch {
	case err != nil:
		return err
	case c.json:
		return printJSON(c.out, struct {
			clientEdit
			Agent    string `json:"agent"`
			ReadOnly bool   `json:"read_only"`
		}{e, s.agent, s.readOnly})
	}
	if _, err := io.WriteString(c.out, e.Diff); err != nil {
		return err
	}
	if !s.dryRun {
		if err := s.tell(ctx, c, client); err != nil {
			return err
		}
	}
	switch {
	case !e.Changed:
		err = writef(c.out, "%s is connected already; its file was not changed.\n", client.Title)
	case !s.dryRun:
		_, err = fmt.Fprintln(c.out, client.Then)
	}
	return err
}

func newMCPUninstall() *cobra.Command {
	var dryRun bool
	return command("uninstall CLIENT", func(ctx context.Context, c *call) error {
		client, err := install.Find(c.args[0])
		if err != nil {
			return err
		}
		e, err := edit(client, dryRun, client.Remove)
		return reply(c, e, err, func(w io.Writer, e clientEdit) error {
			if !e.Changed {
				return writef(w, "%s was not connected.\n", client.Title)
			}
			_, err := io.WriteString(w, e.Diff)
			if err == nil && !dryRun {
				_, err = fmt.Fprintln(w, client.Then)
			}
			return err
		})
	}, knownClients(), dryRunFlag(&dryRun))
}

func newMCPConfig() *cobra.Command {
	s := newSetup()
	return command("config CLIENT", func(_ context.Context, c *call) error {
		client, command, err := s.resolve(c.args[0])
		if err != nil {
			return err
		}
		path, err := clientFile(client)
		if err != nil {
			return err
		}
		answer := map[string]string{"client": client.ID, "file": path, "agent": s.agent, "entry": client.Snippet(command)}
		return reply(c, answer, nil, func(w io.Writer, _ map[string]string) error {
			writef(c.err, "for %s\nIt connects only if this agent exists: osaurus-sandbox agent create %s\n", path, s.agent)
			_, err := io.WriteString(w, client.Snippet(command))
			return err
		})
	}, knownClients(), s.agentFlag(), s.profileFlag())
}

// resolve returns the client with an id and the command that starts this program for it.
func (s *setup) resolve(id string) (install.Client, install.Command, error) {
	client, err := install.Find(id)
	if err != nil {
		return client, install.Command{}, err
	}
	agent, err := config.NameAgent(cmp.Or(s.agent, client.ID))
	if err != nil {
		return client, install.Command{}, err
	}
	s.agent = string(agent)
	profile, err := mcp.ParseProfile(s.profile)
	if err != nil {
		return client, install.Command{}, err
	}
	command := install.Command{Path: programPath(), Args: []string{"mcp", "--agent", s.agent}}
	if profile != tools.Full {
		command.Args = append(command.Args, "--profile", string(profile))
	}
	if home := os.Getenv(config.HomeVariable); home != "" {
		command.Env = map[string]string{config.HomeVariable: home}
	}
	return client, command, nil
}

// admit creates the client's agent if needed, and sets agent to its name.
func (s *setup) admit(ctx context.Context, c *call) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	found, err := c.Agents.Show(ctx, &controlpb.ShowAgentRequest{Agent: s.agent})
	if _, notID := config.ParseAgentID(s.agent); fault.KindOf(err) == fault.NotFound && notID != nil {
		_, err = c.Agents.Create(ctx, &controlpb.CreateAgentRequest{Name: s.agent})
	} else if err == nil {
		s.agent = found.Agent.GetName()
	}
	return err
}

// allow applies --read-only to a client's agent.
func (s *setup) allow(ctx context.Context, c *call, client install.Client) error {
	may := fmt.Sprint(!s.readOnly)
	_, err := c.Agents.Set(ctx, &controlpb.SetAgentRequest{Agent: s.agent, Settings: map[string]string{string(tools.Exec): may}})
	if err != nil {
		return fault.Wrap("set what may be done by", s.agent, err).
			Advise(fmt.Sprintf("%s is connected as this agent already, but what it may do was not changed. Run: osaurus-sandbox agent set %s %s=%s", client.Title, s.agent, tools.Exec, may))
	}
	return nil
}

// ownTools warns that connecting an app does not restrict it.
const ownTools = `The app's own tools for commands and files still work on this computer, outside of the sandbox: only the tools that are added work inside.
If you do not want that, turn the app's own tools off in its settings.`

// tell says which agent a client works as, what the agent may do, and what the app can still do
// without it.
func (s *setup) tell(ctx context.Context, c *call, client install.Client) error {
	may := "may do everything in its room in the sandbox: run commands, write files, install"
	if s.readOnly {
		may = "may only read"
	}
	if err := writef(c.out, "%s works as the agent %s, which %s. Change that: osaurus-sandbox agent set %s %s=%v\n%s\n",
		client.Title, s.agent, may, s.agent, tools.Exec, s.readOnly, lines(ownTools)); err != nil {
		return err
	}
	r, err := c.Status(ctx, &controlpb.StatusRequest{})
	if err == nil && machine.State(r.Status.State) == machine.NotProvisioned {
		_, err = fmt.Fprintln(c.out, "There is no sandbox yet. Make it once: osaurus-sandbox up")
	}
	return err
}

// backupSuffix is appended to the name of a client's file for the backup.
const backupSuffix = ".before-osaurus-sandbox"

// clientFile returns the path of a client's configuration file, with links resolved.
func clientFile(client install.Client) (string, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "find your folder", "", err).Advise("Set HOME.")
	}
	places := install.Places{User: user, Config: cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(user, ".config")), Codex: cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(user, ".codex"))}
	places.Apps = places.Config
	if runtime.GOOS == "darwin" {
		places.Apps = filepath.Join(user, "Library", "Application Support")
	}
	path := client.File(places)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

// clientEdit is the result of an edit.
type clientEdit struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Changed bool   `json:"changed"` // or would be, with --dry-run
	Diff    string `json:"diff"`
}

// edit changes a client's file as do says, unless that changes nothing. A file without content is
// removed. While the client is connected, a copy of the file from before that is beside it.
func edit(client install.Client, dryRun bool, do func(text []byte) ([]byte, error)) (clientEdit, error) {
	const op = "edit the configuration of"
	e := clientEdit{Client: client.ID}
	path, err := clientFile(client)
	if err != nil {
		return e, err
	}
	e.File = path
	before, mode, err := readClient(path)
	if err != nil {
		return e, fault.New(fault.Unavailable, op, client.Title, err).Advise("Make the file readable for you.")
	}
	after, err := do(before)
	if err != nil || bytes.Equal(before, after) {
		return e, err
	}
	e.Changed = true
	if e.Diff, _ = tools.Diff(path, string(before), string(after)); dryRun {
		return e, nil
	}
	connects := client.Has(after)
	if connects && !client.Has(before) && len(before) > 0 {
		if err := config.ReplaceFile(path+backupSuffix, before, mode); err != nil {
			return e, err
		}
	}
	if now, _, err := readClient(path); err != nil || !bytes.Equal(now, before) {
		return e, fault.New(fault.Rejected, op, client.Title, errors.Join(err, errors.New("it is being changed right now"))).Advise("Quit " + client.Title + ", and try again.")
	}
	if len(after) > 0 {
		err = config.ReplaceFile(path, after, mode)
	} else {
		err = os.Remove(path)
	}
	if err == nil && !connects {
		err = os.RemoveAll(path + backupSuffix)
	}
	return e, err
}

// readClient reads a client's file. A missing file is empty and private to the user.
func readClient(path string) (text []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	text, err = os.ReadFile(path)
	return text, info.Mode().Perm(), err
}
