package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"bigset/keyscheme"
	"bigset/server/setname"
)

// bucketFlags adds the flags that name the bucket of a set.
func bucketFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.String("type", setname.PlainType, "bucket type of the set, for sets of Riak's and HTTP's clients")
	f.String("bucket", setname.PlainBucket, "bucket of the set, for sets of Riak's and HTTP's clients")
}

// bucketGiven returns the bucket that the flags of a command name, without a key. given is false if neither flag is given.
func bucketGiven(cmd *cobra.Command) (n setname.Name, given bool) {
	f := cmd.Flags()
	value := func(name string) []byte {
		given = given || f.Changed(name)
		text, _ := f.GetString(name)
		return []byte(text)
	}
	n.Type, n.Bucket = value("type"), value("bucket")
	return n, given
}

// selected reports whether a set has the type and the bucket that the flags name. A flag that is not given selects all.
func selected(cmd *cobra.Command) func(set []byte) bool {
	want, given := bucketGiven(cmd)
	anyType, anyBucket := !cmd.Flags().Changed("type"), !cmd.Flags().Changed("bucket")
	return func(set []byte) bool {
		n, ok := setname.Split(set)
		return !given || ok && (anyType || string(n.Type) == string(want.Type)) && (anyBucket || string(n.Bucket) == string(want.Bucket))
	}
}

// setName returns the name of the set that an argument and the flags for its bucket name. Without the flags the argument is a text as lists show
// it, which may be a path. It is checked before a store is opened or created.
func (a *app) setName(cmd *cobra.Command, arg string) ([]byte, error) {
	set := setname.OfText(arg)
	if n, given := bucketGiven(cmd); given {
		n.Key = []byte(arg)
		set = n.Set()
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("%w: it is empty", errSetName)
	}
	if err := keyscheme.CheckSetName(set); err != nil {
		return nil, fmt.Errorf("%w: %w", errSetName, err)
	}
	a.named = set
	return set, nil
}

// namesBeginning returns what the names begin with of sets whose keys have a prefix, in the bucket that the flags of a command name, if any.
func namesBeginning(cmd *cobra.Command, prefix []byte) ([]byte, error) {
	n, given := bucketGiven(cmd)
	if !given {
		return prefix, nil
	}
	if n.Key = prefix; len(prefix) == 0 && string(n.Type) == setname.PlainType && string(n.Bucket) == setname.PlainBucket {
		return nil, usage(cmd, "the names in type sets, bucket default, have no beginning in common: give a --prefix of theirs")
	}
	return n.Set(), nil
}

// setNameOrAll is setName for the only argument; without an argument it returns nil, which means all sets.
func (a *app) setNameOrAll(cmd *cobra.Command, args []string) ([]byte, error) {
	if len(args) > 0 {
		return a.setName(cmd, args[0])
	}
	if _, given := bucketGiven(cmd); given {
		return nil, usage(cmd, "--type and --bucket need the key of a set as SET")
	}
	return nil, nil
}

// nameLine returns the name of a set for a list, on a line: as text if it has no other.
func nameLine(set []byte, n notation) []byte {
	if n.base64 {
		return set
	}
	return []byte(setname.Text(set))
}

// offered returns what a shell offers for a set as the argument SET of a command: its text or, with flags for a bucket, its key if it is in that
// bucket.
func offered(cmd *cobra.Command) func(set []byte) (arg string, ok bool) {
	want, given := bucketGiven(cmd)
	return func(set []byte) (string, bool) {
		n, ok := setname.Split(set)
		if !given || !ok {
			return setname.Text(set), !given
		}
		return string(n.Key), string(n.Type) == string(want.Type) && string(n.Bucket) == string(want.Bucket)
	}
}
