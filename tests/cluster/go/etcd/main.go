// Command etcd is etcd's server; its own module cannot be installed by version because it holds replacements.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
