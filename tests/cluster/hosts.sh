#!/usr/bin/env bash
# hosts.sh [--rate RATE] [--ranks N,N...] [--timeout SECONDS] [--mpiexec LAUNCHER] [--bare yes] -- PROGRAM ARGS...
#
# Runs PROGRAM under MPI (LAUNCHER is Open MPI's or MPICH's; default: mpirun) on hosts that this machine plays by itself: tw-h1 with the first N ranks, tw-h2
# with the next, and so on (default: 2,2). Each has a host name, a loopback, an eth0 and a /dev/shm of its own; the steady clock of each is 100,000 s
# ahead of the one before (the time of day is not). Cables (veth) join them to a switch (bridge), limited to RATE in each direction (10gbit, 1gbit,
# 100mbit, ...; default: no limit). --bare: PROGRAM is run once, on tw-h1, and may start ranks on all hosts by Open MPI. Files are shared, as on a
# cluster's file system, but for a new /run. The environment is passed on to all ranks.
#
# Any process in there may call `/run/cut HOST`, such as tw-h2: from then on its cable carries nothing, and the other hosts are not told. `/run/mend HOST`
# plugs it in again.
#
# Ends with PROGRAM's exit code (after a failure Open MPI takes up to 5 s to end a job on several hosts); with 124 when SECONDS (default 60) are over;
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

is_open_mpi() { "$1" --version 2>&1 | grep 'Open MPI\|OpenRTE' >/dev/null; }

# ---- inside, as process 1 of the namespaces, which is tw-h1 ----

# prefix HOST: sets `prefix` to what runs a command on that host, by its network and its name, and `clock` to what sets its clock ahead
prefix() {
  prefix=() clock=()
  [ "$1" -gt 1 ] || return 0
  prefix=(nsenter --net="/run/tw-h$1.net" --uts="/run/tw-h$1.uts")
  clock=(unshare --time --monotonic $((100000 * ($1 - 1))) --fork)
}

make_hosts() {  # make_hosts RATE HOSTS
  local rate=$1 hosts=$2 host
  need "a mount is" mount -t tmpfs tmpfs /run
  need "a mount is" mount -t tmpfs tmpfs /dev/shm
  echo '127.0.0.1 localhost' >/run/hosts
  for ((host = 1; host <= hosts; ++host)); do echo "10.77.0.$host tw-h$host" >>/run/hosts; done
  need "a mount is" mount --bind /run/hosts /etc/hosts
  need "a host name is" hostname tw-h1

  touch /run/switch.net
  need "a switch is" unshare --net=/run/switch.net ip link add switch type bridge
  need "the switch is" nsenter --net=/run/switch.net ip link set switch up

  # What the launcher calls, in the place of rsh, as AGENT HOST COMMAND...
  printf '#!/bin/sh\nhost=$1\nshift\nexec /run/on-$host --mount sh -c "mount -t tmpfs tmpfs /dev/shm && $*"\n' >/run/agent
  chmod +x /run/agent
  for ((host = 1; host <= hosts; ++host)); do make_host "$host" "$rate"; done
  local command state
  for command in cut:down mend:up; do
    state=${command#*:} command=/run/${command%:*}
    printf '#!/bin/sh\nexec nsenter --net=/run/switch.net ip link set "port${1#tw-h}" %s\n' $state >$command
    chmod +x $command
  done
}

make_host() {  # make_host HOST RATE
  local host=$1 rate=$2
  prefix "$host"
  if [ "$host" -gt 1 ]; then
    touch "/run/tw-h$host.net" "/run/tw-h$host.uts"
    need "a host is" unshare "--net=/run/tw-h$host.net" "--uts=/run/tw-h$host.uts" hostname "tw-h$host"
    need "a clock is" "${clock[@]}" true
    printf '#!/bin/sh\nexec %s %s "$@"\n' "${prefix[*]}" "${clock[*]}" >"/run/on-tw-h$host"
    chmod +x "/run/on-tw-h$host"
  fi
  need "a veth is" "${prefix[@]}" ip link add eth0 type veth peer name "port$host" netns /run/switch.net
  need "the loopback is" "${prefix[@]}" ip link set lo up
  need "an address is" "${prefix[@]}" ip address add "10.77.0.$host/24" dev eth0
  need "the link is" "${prefix[@]}" ip link set eth0 up
  need "a port is" nsenter --net=/run/switch.net ip link set "port$host" master switch up
  limit eth0 "$rate" "${prefix[@]}"
  limit "port$host" "$rate" nsenter --net=/run/switch.net
}

limit() {  # limit DEVICE RATE [PREFIX...]: of what leaves the device; PREFIX runs a command where it is
  local device=$1 rate=$2 mbit
  shift 2
  [ -n "$rate" ] || return 0
  # A burst of 1 ms and a packet: what comes after a pause may go out unlimited so long. Less costs rate where timers are late, more would hide the
  # price of small messages. (tbf drops all packets that are longer than its burst.)
  mbit=${rate%[mg]bit}
  [ "$rate" != "${mbit}gbit" ] || mbit=$((1000 * mbit))
  need "tbf is" "$@" tc qdisc add dev "$device" root tbf rate "$rate" burst $((125 * mbit + 2000)) latency 50ms
}

open_mpi_options=(--allow-run-as-root --mca plm rsh --mca plm_rsh_agent /run/agent --mca orte_tmpdir_base /run --mca oob_tcp_if_include 10.77.0.0/24
  --mca btl_tcp_if_include 10.77.0.0/24 --mca btl self,vader,tcp --mca mpi_yield_when_idle 1 --oversubscribe --bind-to none --map-by slot -host)
mpich_options=(-launcher rsh -launcher-exec /run/agent -iface eth0 -hosts)

bare() {  # bare SECONDS PROGRAM ARGS...
  export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=/run/agent OMPI_MCA_orte_tmpdir_base=/run OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
  export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_mpi_yield_when_idle=1
  timeout --verbose --kill-after=5 "$@"
  exit
}

run_inside() {  # run_inside RATE RANKS SECONDS LAUNCHER BARE PROGRAM ARGS...
  local rate=$1 seconds=$3 launcher=$4 is_bare=$5 options=("${mpich_options[@]}") ranks list="" total=0 host
  IFS=, read -ra ranks <<<"$2"
  shift 5
  make_hosts "$rate" ${#ranks[@]}
  [ -z "$is_bare" ] || bare "$seconds" "$@"
  for ((host = 1; host <= ${#ranks[@]}; ++host)); do
    list+="${list:+,}tw-h$host:${ranks[host - 1]}"
    total=$((total + ranks[host - 1]))
  done
  is_open_mpi "$launcher" && options=("${open_mpi_options[@]}")
  timeout --verbose --kill-after=5 "$seconds" "$launcher" "${options[@]}" "$list" -n $total "$@"
  exit  # with the launcher's code; whatever still runs ends with this process
}

if [ "${1:-}" = --inside ]; then shift; run_inside "$@"; fi

# ---- outside ----

usage() { echo "hosts: $1; usage: hosts.sh [--rate RATE] [--ranks N,N...] [--timeout SECONDS] [--mpiexec LAUNCHER] -- PROGRAM ARGS..." >&2; exit 2; }
rate="" ranks=2,2 seconds=60 launcher=mpirun is_bare=""
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ $# -gt 1 ] || usage "'$1' lacks its value"
  case $1 in
    --rate) [[ $2 =~ ^[1-9][0-9]*[mg]bit$ ]] || usage "'$2' is no rate"; rate=$2 ;;
    --ranks) [[ $2 =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || usage "'$2' is no list of ranks"; ranks=$2 ;;
    --timeout) seconds=$2 ;;
    --mpiexec) launcher=$2 ;;
    --bare) is_bare=$2 ;;
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
is_open_mpi "$launcher" || "$launcher" --version 2>&1 | grep HYDRA >/dev/null || skip "$launcher is neither Open MPI's nor MPICH's"

# Namespaces of processes, mounts, network and host name. Both setpriv and --kill-child hand a SIGKILL on: script, unshare, process 1, all the rest.
namespaces=(unshare --pid --fork --kill-child --mount --mount-proc --net --uts)
need "unshare is" "${namespaces[@]}" true
job=
trap '[ -z "$job" ] || { kill -KILL "$job"; wait; } 2>/dev/null; exit 143' INT TERM HUP
setpriv --pdeathsig KILL "${namespaces[@]}" bash "$0" --inside "$rate" "$ranks" "$seconds" "$launcher" "$is_bare" "$@" </dev/null &
job=$!
wait "$job"
