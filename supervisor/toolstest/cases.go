package toolstest

import (
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/tools"
)

// cases are all calls, in the order in which they are made: some build on those
// before them.
func cases() []Case {
	return slices.Concat(readCases(), searchCases(), writeCases(), editCases(), execCases(), sessionCases(), processCases(), installCases(), codeCases(), shareCases(), secretCases(), historyCases(), pluginCases(), callCases())
}

func readCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_read_file", Args: args} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		of("Read a file", `{"path":"notes.md"}`),
		of("Read some of its lines", `{"path":"~/notes.md","start_line":3,"line_count":2}`),
		of("Read some lines, with zeros for what is not asked for", `{"path":"notes.md","start_line":3,"line_count":2,"tail_lines":0,"offset":0,"max_chars":0}`),
		of("Read its last lines", `{"path":"/workspace/agents/ada/notes.md","tail_lines":2}`),
		of("Read the beginning of a long file", `{"path":"large.txt","max_chars":45}`),
		of("Read on where that ended", `{"path":"large.txt","offset":45,"line_count":2}`),
		of("Read an empty file", `{"path":"empty"}`),
		of("Read a file whose name a shell would not like", `{"path":"it's $HOME \"quoted\".txt"}`),
		of("List a folder", `{"path":"src"}`),

		wrong("An argument is missing", `{}`),
		wrong("An argument is empty", `{"path":""}`),
		wrong("An argument is of another type", `{"path":["notes.md"]}`),
		wrong("An argument that the tool does not have", `{"file":"notes.md"}`),
		wrong("The arguments are no object", `["notes.md"]`),
		wrong("A number in words", `{"path":"notes.md","start_line":"the third"}`),
		wrong("A negative line", `{"path":"notes.md","start_line":-3,"line_count":1}`),
		wrong("A range behind the end of the file", `{"path":"notes.md","start_line":900,"line_count":50}`),
		wrong("A huge range", `{"path":"large.txt","start_line":1,"line_count":100000000,"max_chars":30}`),
		wrong("An offset behind the end of the file", `{"path":"notes.md","offset":9000}`),
		wrong("A line that is longer than what is answered", `{"path":"oneline.json","max_chars":30}`),
		wrong("Two ways to say which lines", `{"path":"notes.md","start_line":1,"tail_lines":1}`),
		wrong("An offset beside what the call before had", `{"path":"notes.md","start_line":1,"offset":9,"max_chars":6}`),
		wrong("A file that is not there", `{"path":"notes.txt"}`),
		wrong("A path of the person's computer", `{"path":"/Users/me/notes.md"}`),
		wrong("A path of Windows", `{"path":"C:\\Users\\me\\notes.md"}`),
		wrong("A path outside of what files tools may touch", `{"path":"/etc/passwd"}`),
		wrong("Another agent's file", `{"path":"/workspace/agents/ben/notes.md"}`),
		wrong("A path that climbs out", `{"path":"../ben/notes.md"}`),
		wrong("A link that leads out", `{"path":"out"}`),
		wrong("A folder that is a link and leads out", `{"path":"up/etc/passwd"}`),
		wrong("A link that leads to itself", `{"path":"round"}`),
		wrong("A NUL character in a path", `{"path":"notes.md\u0000.png"}`),
		wrong("A path without an end", `{"path":"`+strings.Repeat("a/", 2500)+`"}`),
		wrong("A file as if it were a folder", `{"path":"notes.md/first"}`),
		wrong("A binary file", `{"path":"picture.png"}`),
	}
}

func searchCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_search_files", Args: args} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		of("Search for lines", `{"pattern":"func \\w+\\(\\) \\{","path":"src"}`),
		of("Search with lines around", `{"pattern":"Three","path":"src/b.go","context_lines":1}`),
		of("Search whatever the capitals", `{"pattern":"ONE","path":"src","include":"*.go","case_insensitive":true}`),
		of("Search for files", `{"pattern":"*.go","target":"files","path":"src"}`),
		of("Search for files by a part of their names", `{"pattern":"C.P","target":"files"}`),
		of("Search for what begins with a dash", `{"pattern":"--pre=sh","path":"src"}`),
		of("Search for what is not there", `{"pattern":"class One","path":"src"}`),
		of("Search with a limit", `{"pattern":"line","path":"large.txt","max_results":2}`),

		wrong("A pattern that is none", `{"pattern":"func (","path":"src"}`),
		wrong("A pattern of another dialect", `{"pattern":"(?<=func )One","path":"src"}`),
		wrong("A glob that is none", `{"pattern":"[a","target":"files"}`),
		wrong("A glob where lines are searched", `{"pattern":"*.go","path":"src"}`),
		wrong("A choice that is none", `{"pattern":"One","target":"names"}`),
		wrong("Search where nothing is", `{"pattern":"One","path":"source"}`),
		wrong("Search outside", `{"pattern":"root","path":"/etc"}`),
		wrong("More results than there may be", `{"pattern":"One","path":"src/a.go","max_results":100000}`),
		wrong("A search that leaves all files out", `{"pattern":"One","path":"src","include":"*.rs"}`),
	}
}

func writeCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_write_file", Args: args} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		of("Write a new file in a new folder", `{"path":"made/new.txt","content":"one\ntwo\n"}`),
		of("Write over it", `{"path":"made/new.txt","content":"one\nthree\n"}`),
		of("Write to its end", `{"path":"made/new.txt","content":"four\n","mode":"append"}`),
		{Name: "Write over a file that is too large to compare", Tool: "sandbox_write_file", Args: `{"path":"huge.txt","content":"small\n"}`, At: Host},
		of("Write nothing", `{"path":"made/empty","content":""}`),

		wrong("Write without content", `{"path":"made/new.txt"}`),
		wrong("Write to a folder", `{"path":"src","content":"x"}`),
		wrong("Write below a file", `{"path":"notes.md/x","content":"x"}`),
		wrong("Write outside", `{"path":"/usr/local/bin/tool","content":"x"}`),
		wrong("Write through a link that leads out", `{"path":"out","content":"x"}`),
		wrong("Write an object", `{"path":"made/o.json","content":{"a":1}}`),
		{Name: "Write to what is write-protected", Tool: "sandbox_write_file", Args: `{"path":"protected","content":"b\n"}`, Wrong: true, At: Room},
		{Name: "Run one that fills the disk", Tool: "sandbox_exec", At: Room, Args: `{"command":"head -c 20000000 /dev/zero >/tmp/full 2>/dev/null"}`},
		{Name: "Write where the disk is full", Tool: "sandbox_write_file", Wrong: true, At: Room,
			Args: fmt.Sprintf(`{"path":"/tmp/more","content":"%s"}`, strings.Repeat("0", 200_000))},
		{Name: "Delete what filled it", Tool: "sandbox_exec", At: Room, Args: `{"command":"rm /tmp/full"}`},
	}
}

func editCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_edit_file", Args: args} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		of("Edit a line", `{"path":"src/a.go","old_string":"func Two() {}","new_string":"func Two() { One() }"}`),
		of("Delete a line", `{"path":"notes.md","old_string":"Call Anna.\n","new_string":""}`),
		of("Edit a file with line ends of Windows", `{"path":"windows.txt","old_string":"first\nsecond","new_string":"first\nnext\nsecond"}`),

		wrong("Edit what is not there", `{"path":"src/a.go","old_string":"func Too() {}","new_string":""}`),
		wrong("Edit what nothing is like", `{"path":"notes.md","old_string":"Sell the house.","new_string":""}`),
		wrong("Edit with the spaces of another", `{"path":"src/deep/c.py","old_string":"def one():\n\treturn 1","new_string":"def one():\n\treturn 2"}`),
		wrong("Edit what is there twice", `{"path":"notes.md","old_string":"Buy ","new_string":"Get "}`),
		wrong("Edit nothing", `{"path":"notes.md","old_string":"","new_string":"x"}`),
		wrong("Edit without a change", `{"path":"notes.md","old_string":"Buy milk.","new_string":"Buy milk."}`),
		wrong("Edit a file that is not there", `{"path":"todo.md","old_string":"a","new_string":"b"}`),
		wrong("Edit a folder", `{"path":"src","old_string":"a","new_string":"b"}`),
		wrong("Edit a binary file", `{"path":"picture.png","old_string":"PNG","new_string":"GIF"}`),
		{Name: "Edit a file that is too large", Tool: "sandbox_edit_file", Args: `{"path":"data.txt","old_string":"a","new_string":"b"}`, Wrong: true, At: Host},
	}
}

// callCases are about no tool: who calls it, and whether it is there.
func callCases() []Case {
	return []Case{
		{Name: "A tool that is not there", Tool: "sandbox_run", Args: `{"command":"ls"}`, Wrong: true},
		{Name: "A tool of another program", Tool: "bash", Args: `{"command":"ls"}`, Wrong: true},
		{Name: "A tool that a setting forbids", Tool: "sandbox_exec", Args: `{"command":"ls"}`, Wrong: true,
			With: func(c *tools.Call) { c.Settings.AutonomousExec = false }},
		{Name: "The last command of a turn", Tool: "sandbox_exec", Args: `{"command":"true"}`, At: Room, With: lastOfTurn},
		{Name: "One more command than a turn has", Tool: "sandbox_exec", Args: `{"command":"true"}`, Wrong: true, At: Room, With: lastOfTurn},
	}
}

func lastOfTurn(c *tools.Call) { c.Turn, c.Settings.MaxCommandsPerTurn = "answer 7", 1 }
