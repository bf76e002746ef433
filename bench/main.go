// Command bench measures redlatch beside other lock libraries, on redis-servers of its own, in one
// run: absolute times differ from machine to machine and from hour to hour, ratios within a run do
// not. It fails if something did not run, or if redlatch sent more commands, started more
// goroutines or kept fewer leases than it should, and never because of a time.
//
// The workload of users comes first: several processes, thousands of names, work, and waits that are
// called off. -parts chooses parts, each of which has its date and commit in the results.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	do := run
	switch command := append(os.Args, "")[1]; command {
	case "hold":
		do = hold
	case "users":
		do = user
	case "delay":
		do = delay
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	quick := flag.Bool("quick", false, "a short form of every workload, one round")
	rounds := flag.Int("rounds", 5, "how often each system is put to each workload; 3 times at most for those that differ little")
	span := flag.Duration("span", time.Second, "how long each time")
	chosen := flag.String("parts", "", "the `PARTS` to run, with commas: users, few, bare, linger, contended, cluster, quorum, holding, slots, killed; default all")
	only := flag.String("only", "", "`REGEXP` of what to run, by group, name and system with colons between; for a look, without -out and -docs")
	out := flag.String("out", "", "`FILE` for the results as JSON; parts that are not run stay as they are there")
	from := flag.String("from", "", "`FILE` with results, to write -docs from it and measure nothing")
	docs := flag.String("docs", "", "`DIRECTORY` for the tables and plots")
	flag.Parse()
	if *quick {
		*rounds, *span = 1, 300*time.Millisecond
	}
	f := form{*quick, *rounds, *span}
	if *from != "" {
		r, err := load(*from)
		if err != nil {
			return err
		}
		return r.document(*docs, f)
	}
	if (*only != "" || *quick) && (*out != "" || *docs != "") {
		return errors.New("-only and -quick measure a piece of a part: without -out and -docs, which keep whole parts")
	}
	toRun, err := choose(*chosen)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	whole, fresh := &report{}, &report{}
	if *out != "" {
		if whole, err = load(*out); err != nil {
			return err
		}
	}
	for _, p := range toRun {
		m, err := p.measure(f, wanted)
		if err != nil {
			return err
		}
		whole.put(m)
		fresh.put(m)
		if *out != "" { // after each part: the next may not end
			if err := whole.write(*out); err != nil {
				return err
			}
		}
	}
	fmt.Println()
	for _, a := range fresh.ratios() {
		fmt.Printf("%8s  %s (%s)\n", a.value, a.what, strings.TrimSpace(a.aim+"; met: "+a.met))
	}
	if *docs != "" {
		return errors.Join(whole.document(*docs, f), fresh.failed())
	}
	return fresh.failed()
}

// choose returns the parts with these names, or all.
func choose(names string) (chosen []part, err error) {
	if names == "" {
		return parts, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if place(name) < 0 {
			return nil, fmt.Errorf("there is no part %q: -help tells the parts", name)
		}
		chosen = append(chosen, parts[place(name)])
	}
	return chosen, nil
}

// measure runs what is wanted of a part, on its own servers.
func (p part) measure(f form, wanted *regexp.Regexp) (*measured, error) {
	start := time.Now()
	f.rounds = min(f.rounds, p.rounds)
	var scenes []scene
	for _, s := range p.scenes(f) {
		s.systems = slices.DeleteFunc(slices.Clone(s.systems), func(sys system) bool {
			return !wanted.MatchString(s.group + ": " + s.name + ": " + sys.name)
		})
		if len(s.systems) > 0 {
			scenes = append(scenes, s)
		}
	}
	if len(scenes) == 0 {
		return &measured{Part: p.name}, nil
	}
	d, err := deploy(p.kind, p.nodes)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	m := newMeasured(p.name, cmp.Or(info(d.servers[0], "server")["redis_version"], "unknown"))
	for _, s := range scenes {
		show(s, m.play(d, s))
	}
	fmt.Printf("\n%s took %s\n", p.name, time.Since(start).Round(time.Second))
	return m, nil
}
