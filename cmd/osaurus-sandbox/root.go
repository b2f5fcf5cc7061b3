package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

func newRoot(c console) *cobra.Command {
	root := &cobra.Command{
		Use:   "osaurus-sandbox",
		Short: "A Linux VM for AI agents to work in",
		Long:  "Osaurus Sandbox gives AI agents on this computer a Linux virtual machine to work in.\n\n" + exitCodes,
		Example: `  osaurus-sandbox doctor                          what this computer can do, and what is missing
  osaurus-sandbox up                              have the sandbox running
  osaurus-sandbox agent create alice              make an agent
  osaurus-sandbox exec alice -- uname -a          run a command as it
  osaurus-sandbox shell alice                     work in its shell
  osaurus-sandbox secret set alice TOKEN          keep what it needs to know
  osaurus-sandbox status --watch                  see how it is
  osaurus-sandbox down                            power it off
  osaurus-sandbox boot -- uname -a                run a command in a throwaway VM`,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddCommand(newMachineCommands(c)...)
	root.AddCommand(
		newAgent(c), newArtifacts(c), newAudit(c), newBoot(c), newConfig(c), newDiagnose(c), newDoctor(),
		newEvents(c), newExec(c), newJob(c), newLogs(c), newMCP(c), newMemory(c), newPack(c), newPlugin(c), newPrompt(c),
		newPs(c), newSandbox(c), newSecret(c), newServe(c), newService(c), newSession(c), newShell(c),
		newStatus(c), newTask(c), newTool(c), newTop(c), newVersion(c),
	)
	return root
}

// showHelp is what a command does that only has others below it. Without it
// cobra takes any unknown word for a call for help.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}

// alwaysJSON is the flag of a command that prints nothing else: whoever says it
// everywhere is not wrong here.
func alwaysJSON(cmd *cobra.Command) { cmd.Flags().Bool("json", true, "print JSON, as it always does") }

// printJSON prints JSON for people and programs.
func printJSON(w io.Writer, v any) error { return encodeJSON(w, v, "  ") }

// printJSONLine prints JSON on one line.
func printJSONLine(w io.Writer, v any) error { return encodeJSON(w, v, "") }

func encodeJSON(w io.Writer, v any, indent string) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, harmlessJSON(out.Bytes()))
	return err
}
