package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"

	_ "github.com/kafka-marshal/marshal" // lends the record format
)

func main() {
	runtime.LockOSThread()
	var c cell
	prof := flag.String("cpuprofile", "", "")
	flag.IntVar(&c.members, "m", 10, "")
	flag.IntVar(&c.partitions, "p", 100, "")
	flag.IntVar(&c.topics, "t", 1, "")
	lo := flag.Bool("lone", false, "")
	flag.Parse()
	if *prof != "" {
		f, _ := os.Create(*prof)
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	if *lo {
		a := runLone(c, 1, false)
		fmt.Printf("%+v\n", a)
		return
	}
	f := runFlows(c, 1)
	for _, x := range []struct {
		n string
		f figure
	}{{"cold", f.cold}, {"idle", f.idle}, {"died", f.died}, {"back", f.back}, {"parked", f.parked}, {"rolled", f.rolled}} {
		fmt.Printf("%-8s took %v records %d beats %d bytes %d moves %d plans %d cpu %v longest %v  %+v\n", x.n, x.f.took, x.f.records, x.f.beats, x.f.bytes, x.f.moves, x.f.work.plans, x.f.work.total(), x.f.work.longest, x.f.work)
	}
	fmt.Println(f.wrong, f.took)
}
