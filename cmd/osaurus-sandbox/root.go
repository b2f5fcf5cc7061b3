package main

import (
	"github.com/spf13/cobra"
)

func newRoot(c console) *cobra.Command {
	root := &cobra.Command{
		Use:   "osaurus-sandbox",
		Short: "A Linux VM for AI agents to work in",
		Long:  "Osaurus Sandbox gives AI agents on this computer a Linux virtual machine to work in.\n\n" + exitCodes,
		Example: `  osaurus-sandbox doctor                          check whether this computer can run the sandbox
  osaurus-sandbox up                              start the sandbox
  osaurus-sandbox agent create alice              make an agent
  osaurus-sandbox exec alice -- uname -a          run a command as it
  osaurus-sandbox shell alice                     work in its shell
  osaurus-sandbox secret set alice TOKEN          keep a secret for it
  osaurus-sandbox status --watch                  see how it is
  osaurus-sandbox down                            power it off
  osaurus-sandbox boot -- uname -a                run a command in a throwaway VM`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	inGroups(root, []group{
		{"The sandbox", append(newMachineCommands(c), newStatus(c), newDoctor(), newDiagnose(c), newConfig(c), newService(c), newServe(c))},
		{"Agents and their commands", []*cobra.Command{newAgent(c), newExec(c), newShell(c), newForward(c), newCp(c), newSession(c), newJob(c), newPs(c), newTop(c)}},
		{"Tools, plugins, apps", []*cobra.Command{newTool(c), newPlugin(c), newMCP(c), newArtifacts(c)}},
		{"What agents ask for and keep", []*cobra.Command{newSecret(c), newPrompt(c), newMemory(c), newTask(c)}},
		{"What happened", []*cobra.Command{newEvents(c), newLogs(c), newAudit(c)}},
		{"Throwaway VMs, and what guests are made of", []*cobra.Command{newBoot(c), newPack(c), newSandbox(c)}},
	})
	root.Version = build()
	root.SetVersionTemplate("osaurus-sandbox {{.Version}}\n")
	root.AddCommand(newVersion())
	applyUse(root)
	for _, cmd := range root.Commands() {
		alsoCalled(cmd)
	}
	return root
}

// alsoCalled has the commands below cmd be found by the words that other programs have for
// the same. Those of root have one name: its remove takes a whole guest away.
func alsoCalled(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		alsoCalled(sub)
		switch sub.Name() {
		case "list":
			sub.Aliases = append(sub.Aliases, "ls")
		case "delete":
			sub.Aliases = append(sub.Aliases, "remove", "rm")
		case "remove":
			sub.Aliases = append(sub.Aliases, "delete", "rm")
		}
	}
}

// group is commands that help shows together.
type group struct {
	title    string
	commands []*cobra.Command
}

// inGroups puts commands below root, in an order in which a newcomer reads.
func inGroups(root *cobra.Command, groups []group) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
}
