// Command bigset keeps very big sets in a data folder, from a shell.
//
//	bigset set add friends paul ringo
//	bigset set ls friends
//
// Its law: standard output contains answers and nothing else, so that it can be piped; standard error contains messages for the user. The
// exit status is 0 for success, 1 for absent or not verified, and 2 for an error, and an error says what to do next. Bytes from outside are
// not trusted: names and elements may be any bytes, and tokens are unsealed before they count.
//
// Each subcommand has a file with its flags, its help and its work on an engine.Store. Start reading at main.go and root.go; store.go opens
// the store, output.go prints, errors.go turns errors into advice, lines.go and set_import.go are the only pipeline.
package main
