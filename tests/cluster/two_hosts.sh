#!/usr/bin/env bash
# two_hosts.sh [--rate RATE] [--ranks-per-host N] [--timeout SECONDS] [--mpiexec LAUNCHER] -- PROGRAM ARGS...
#
# Runs PROGRAM under MPI (LAUNCHER is Open MPI's or MPICH's; default: mpirun) on two hosts, tw-h1 (ranks 0 to N-1) and tw-h2 (ranks N to 2N-1), that this machine plays by itself. Each has a host
# name, a loopback, an eth0 and a /dev/shm of its own; the steady clock of tw-h2 is 100,000 s ahead (the time of day is not). A cable (veth) joins the
# two, limited to RATE in each direction (1gbit, 100mbit, ...; default: no limit). Files are shared, as on a cluster's file system, but for a new /run.
# The environment is passed on to all ranks.
#
# Ends with PROGRAM's exit code (after a failure Open MPI takes up to 5 s to end a job on two hosts); with 124 when SECONDS (default 60) are over;
# with 77 and a line "SKIPPED: reason" where it cannot be done: it takes root, ip and tc (Debian: iproute2), either MPI, and, in a container, the
# capabilities SYS_ADMIN and NET_ADMIN.
#
# All of it, processes and mounts included, lives in namespaces without a name: the kernel removes them, whichever way this script ends (SIGKILL
# too), and runs do not see each other.
set -u
PATH=$PATH:/usr/sbin:/sbin

skip() { echo "SKIPPED: $*"; exit 77; }
need() {  # need WHAT COMMAND...: runs COMMAND; where it fails, the test is skipped because WHAT is refused
  local what=$1 message
  shift
  message=$("$@" 2>&1) || skip "$what refused: $message"
}

is_open_mpi() { "$1" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; }

# ---- inside, as process 1 of the namespaces, which is tw-h1 ----

on_host_2=(nsenter --net=/run/tw-h2.net --uts=/run/tw-h2.uts)
clock_2=(unshare --time --monotonic 100000 --fork)

make_hosts() {  # make_hosts RATE
  need "a mount is" mount -t tmpfs tmpfs /run
  need "a mount is" mount -t tmpfs tmpfs /dev/shm
  printf '127.0.0.1 localhost\n10.77.0.1 tw-h1\n10.77.0.2 tw-h2\n' >/run/hosts
  need "a mount is" mount --bind /run/hosts /etc/hosts
  need "a host name is" hostname tw-h1
  touch /run/tw-h2.net /run/tw-h2.uts
  need "a second host is" unshare --net=/run/tw-h2.net --uts=/run/tw-h2.uts hostname tw-h2

  need "a clock is" "${clock_2[@]}" true

  # What the launcher calls, in the place of rsh, as AGENT HOST COMMAND...
  printf '#!/bin/sh\nshift\nexec %s %s --mount sh -c "mount -t tmpfs tmpfs /dev/shm && $*"\n' "${on_host_2[*]}" "${clock_2[*]}" >/run/agent
  chmod +x /run/agent

  need "a veth is" ip link add eth0 type veth peer name eth0 netns /run/tw-h2.net
  plug_in 1 "$1"
  plug_in 2 "$1" "${on_host_2[@]}"
}

plug_in() {  # plug_in HOST RATE [PREFIX...]: network of host 1 or 2; PREFIX runs a command there
  local host=$1 rate=$2 mbit
  shift 2
  need "the loopback is" "$@" ip link set lo up
  need "an address is" "$@" ip address add "10.77.0.$host/24" dev eth0
  need "the link is" "$@" ip link set eth0 up
  [ -n "$rate" ] || return 0
  # A burst of 1 ms and a packet: what comes after a pause may go out unlimited so long. Less costs rate where timers are late, more would hide the
  # price of small messages. (tbf drops all packets that are longer than its burst.)
  mbit=${rate%[mg]bit}
  [ "$rate" != "${mbit}gbit" ] || mbit=$((1000 * mbit))
  need "tbf is" "$@" tc qdisc add dev eth0 root tbf rate "$rate" burst $((125 * mbit + 2000)) latency 50ms
}

open_mpi_options=(--allow-run-as-root --mca plm rsh --mca plm_rsh_agent /run/agent --mca orte_tmpdir_base /run --mca oob_tcp_if_include 10.77.0.0/24
  --mca btl_tcp_if_include 10.77.0.0/24 --mca btl self,vader,tcp --mca mpi_yield_when_idle 1 --oversubscribe --bind-to none --map-by slot -host)
mpich_options=(-launcher rsh -launcher-exec /run/agent -iface eth0 -hosts)

run_inside() {  # run_inside RATE RANKS_PER_HOST SECONDS LAUNCHER PROGRAM ARGS...
  local rate=$1 ranks=$2 seconds=$3 launcher=$4 options=("${mpich_options[@]}")
  shift 4
  make_hosts "$rate"
  is_open_mpi "$launcher" && options=("${open_mpi_options[@]}")
  timeout --verbose --kill-after=5 "$seconds" "$launcher" "${options[@]}" "tw-h1:$ranks,tw-h2:$ranks" -n $((2 * ranks)) "$@"
  exit  # with the launcher's code; whatever still runs ends with this process
}

if [ "${1:-}" = --inside ]; then shift; run_inside "$@"; fi

# ---- outside ----

usage() { echo "two_hosts: $1; usage: two_hosts.sh [--rate RATE] [--ranks-per-host N] [--timeout SECONDS] [--mpiexec LAUNCHER] -- PROGRAM ARGS..." >&2; exit 2; }
rate="" ranks=1 seconds=60 launcher=mpirun
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ $# -gt 1 ] || usage "'$1' lacks its value"
  case $1 in
    --rate) [[ $2 =~ ^[1-9][0-9]*[mg]bit$ ]] || usage "'$2' is no rate"; rate=$2 ;;
    --ranks-per-host) ranks=$2 ;;
    --timeout) seconds=$2 ;;
    --mpiexec) launcher=$2 ;;
    *) usage "unknown option '$1'" ;;
  esac
  shift 2
done
[ $# -gt 1 ] || usage "no program"
shift

[ "$(id -u)" -eq 0 ] || skip "it takes root to make hosts of namespaces"
for command in ip tc "$launcher" unshare nsenter setpriv mount hostname timeout; do
  command -v "$command" >/dev/null || skip "there is no '$command'"
done
is_open_mpi "$launcher" || "$launcher" --version 2>&1 | grep -q HYDRA || skip "$launcher is neither Open MPI's nor MPICH's"

# Namespaces of processes, mounts, network and host name. Both setpriv and --kill-child hand a SIGKILL on: script, unshare, process 1, all the rest.
namespaces=(unshare --pid --fork --kill-child --mount --mount-proc --net --uts)
need "unshare is" "${namespaces[@]}" true
job=
trap '[ -z "$job" ] || { kill -KILL "$job"; wait; } 2>/dev/null; exit 143' INT TERM HUP
setpriv --pdeathsig KILL "${namespaces[@]}" bash "$0" --inside "$rate" "$ranks" "$seconds" "$launcher" "$@" </dev/null &
job=$!
wait "$job"
