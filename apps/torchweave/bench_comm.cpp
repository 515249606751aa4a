// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iostream>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/file.hpp>
#include <tw/base/suggest.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/backend.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>

#include "bench_operations.hpp"
#include "bench_predict.hpp"
#include "bench_report.hpp"
#include "bench_tune.hpp"

namespace tw::tool {
namespace {

constexpr const char* how_measured =
    "Before each call, the tensor is rewritten and all ranks meet in a barrier; then the call is timed. The time of a call is that of the slowest\n"
    "rank; for ping_pong it is half of the round trip. 10 untimed calls come first. The table shows the median over the rounds and the spread,\n"
    "(p90 - p10) / median.\n"
    "\n"
    "Bandwidths are in 10^9 bytes per second. n is the size in the table: the float32 tensor that is reduced, broadcast or sent, or the total that\n"
    "all ranks gather or scatter. Algorithm bandwidth is n / t. Bus bandwidth is what each rank's link has to carry: with p ranks, 2n(p-1)/p / t\n"
    "for allreduce, n(p-1)/p / t for reduce_scatter and allgather, and n / t for the others.\n"
    "\n"
    "Backends: shared_memory; shared_memory/in_place, the same on tensors from shared_tensor(); mpi; hierarchical, and algorithms over messages,\n"
    "see docs/clusters.md. With --compare mpi, each backend takes turns with MPI's own blocking call on ordinary memory, round by round, in\n"
    "alternating order; the ratio is MPI's time / the backend's time.";

struct BenchArguments {
  std::vector<std::string> operations;
  std::vector<std::string> backends;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{64} << 20;
  int rounds = 0;  // 0: by size
  std::string compare;
  std::string json;
  std::string svg;
  std::string tune;
  std::string predict;
};

/// A backend, with a communicator whose collectives go to it.
struct Lane {
  std::string name;
  std::string backend;
  bool in_place;  // tensors lie in shared memory
  Communicator comm;
};

std::vector<Lane> make_lanes(const Communicator& comm) {
  std::vector<Lane> lanes;
  const auto add = [&](const std::string& name, const std::string& backend, bool in_place) {
    lanes.push_back({name, backend, in_place, comm.dup()});
    choose_backend(lanes.back().comm, backend);
  };
  for (const Availability& entry : availability(comm)) {
    if (entry.collective != Collective::barrier) break;  // every collective lists the same backends
    add(entry.backend, entry.backend, false);
    if (entry.backend == "shared_memory") add("shared_memory/in_place", "shared_memory", true);
  }
  return lanes;
}

bool reads_in_place(Collective operation) {
  return operation == Collective::allreduce || operation == Collective::reduce_scatter || operation == Collective::allgather ||
         operation == Collective::broadcast;
}

// Why `lane` cannot do the operation; empty if it can.
std::string why_not(const Lane& lane, Collective operation) {
  if (operation == Collective::send) {
    if (lane.backend != "mpi") return "messages between two ranks go through MPI";
    return lane.comm.size() == 1 ? "it needs two ranks" : "";
  }
  if (lane.in_place && !reads_in_place(operation)) return "it does not work on tensors in place";
  for (const Availability& entry : availability(lane.comm)) {
    if (entry.collective == operation && entry.backend == lane.backend) return entry.why_not;
  }
  return "this communicator has no such backend";
}

/// One of the implementations that take turns.
struct Contestant {
  BenchData data;
  std::function<void(const BenchData&)> call;
  std::vector<double> us = {};  // time of each round, on its slowest rank
};

// Measures the contestants in turns, round by round, and alternates which one begins. Collective over `meeting`.
void measure(const Communicator& meeting, std::vector<Contestant>& contestants, int rounds) {
  constexpr int warm_up = 10;
  for (int round = -warm_up; round < rounds; ++round) {
    for (size_t turn = 0; turn < contestants.size(); ++turn) {
      Contestant& mine = contestants[(turn + static_cast<size_t>(round + warm_up)) % contestants.size()];
      if (mine.data.input.defined()) mine.data.input.fill_(1);
      barrier(meeting);
      const Stopwatch watch;
      mine.call(mine.data);
      const Seconds took = watch.elapsed();
      if (round >= 0) mine.us.push_back(1e6 * took.count());
    }
  }
  for (Contestant& contestant : contestants) {
    mpi::allreduce(meeting, {contestant.us.data(), static_cast<int64_t>(contestant.us.size()), ElementType::float64}, ReduceOp::max);
  }
}

at::Tensor ordinary_floats(int64_t floats) { return at::zeros({floats}, at::kFloat); }

/// Measures operations one after the other, size by size, on every lane. Collective.
class Bench {
 public:
  /// @param comm, arguments, lanes borrowed. @param report null except on the rank that writes.
  Bench(const Communicator& comm, const BenchArguments& arguments, const std::vector<Lane>& lanes, BenchReport* report)
      : comm_(comm), native_(comm.dup()), arguments_(arguments), lanes_(lanes), report_(report) {}

  const Tuning& tuning() const noexcept { return tuning_; }

  void run(Collective operation) {
    if (report_ != nullptr) report_->begin_operation(operation);
    std::vector<const Lane*> able;
    for (const Lane& lane : lanes_) {
      const std::string why = why_not(lane, operation);
      if (why.empty()) {
        able.push_back(&lane);
      } else if (report_ != nullptr) {
        report_->skip(operation, lane.name, why);
      }
    }
    const auto sizes = message_sizes(operation, static_cast<int64_t>(arguments_.min_bytes), static_cast<int64_t>(arguments_.max_bytes), comm_.size());
    for (const int64_t bytes : sizes) {
      std::vector<double> baseline_us;
      for (const Lane* lane : able) run(operation, bytes, *lane, baseline_us);
      if (report_ != nullptr && !baseline_us.empty()) report_->add_baseline(operation, bytes, summarise(baseline_us));
    }
  }

 private:
  // Adds the baseline's times to `baseline_us`.
  void run(Collective operation, int64_t bytes, const Lane& lane, std::vector<double>& baseline_us) {
    const int rounds = arguments_.rounds > 0 ? arguments_.rounds : default_rounds(bytes);
    const auto shared_floats = [&](int64_t floats) { return shared_tensor(lane.comm, {floats}, at::kFloat); };
    const MakeFloats make = lane.in_place ? MakeFloats(shared_floats) : ordinary_floats;
    std::vector<Contestant> contestants;
    contestants.push_back(
        {make_bench_data(operation, bytes, comm_.size(), make), [&](const BenchData& data) { call_torchweave(lane.comm, operation, data); }});
    if (!arguments_.compare.empty()) {
      contestants.push_back(
          {make_bench_data(operation, bytes, comm_.size(), ordinary_floats), [&](const BenchData& data) { call_mpi(native_, operation, data); }});
    }
    measure(comm_, contestants, rounds);
    if (operation == Collective::send) {  // there and back
      for (Contestant& contestant : contestants) std::for_each(contestant.us.begin(), contestant.us.end(), [](double& us) { us /= 2; });
    }
    Measurement measured{.operation = operation, .backend = lane.name, .bytes = bytes, .rounds = rounds, .times = summarise(contestants[0].us)};
    if (contestants.size() > 1) {
      measured.baseline = summarise(contestants[1].us);
      baseline_us.insert(baseline_us.end(), contestants[1].us.begin(), contestants[1].us.end());
    }
    tuning_.add(measured);
    if (report_ != nullptr) report_->add(measured);
  }

  const Communicator& comm_;
  Communicator native_;  // for MPI's own calls
  const BenchArguments& arguments_;
  const std::vector<Lane>& lanes_;
  BenchReport* report_;
  Tuning tuning_;
};

// `names`, or all known names if it is empty.
std::vector<std::string> choose(const char* option, const std::vector<std::string>& names, const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw CLI::ValidationError(option, concat("\"", name, "\" is unknown; the nearest is \"", nearest_name(name, known), "\""));
  }
  return names.empty() ? known : names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

void check_sizes(const BenchArguments& arguments) {
  constexpr uint64_t largest = uint64_t{4} << 30;  // MPI's own calls count elements in an int
  if (arguments.min_bytes > arguments.max_bytes) throw CLI::ValidationError("--min-bytes", "must not be above --max-bytes");
  if (arguments.max_bytes > largest) throw CLI::ValidationError("--max-bytes", "must be at most 4 GiB");
}

void run_bench_comm(const BenchArguments& arguments, Session& session) {
  check_sizes(arguments);
  std::vector<std::string> known_operations;
  for (const Collective operation : bench_operations()) known_operations.push_back(bench_name(operation));
  const auto operations = choose("--op", arguments.operations, known_operations);
  if (!arguments.predict.empty()) {
    if (!session.is_first()) return;
    predict(read_cluster(arguments.predict), operations, static_cast<int64_t>(arguments.min_bytes), static_cast<int64_t>(arguments.max_bytes),
            std::cout);
    return;
  }
  const Communicator comm = session.mpi().world().dup();
  at::set_num_threads(1);
  std::vector<Lane> lanes = make_lanes(comm);
  std::vector<std::string> known_backends;
  for (const Lane& lane : lanes) known_backends.push_back(lane.name);
  const auto backends = choose("--backend", arguments.backends, known_backends);
  std::erase_if(lanes, [&](const Lane& lane) { return !contains(backends, lane.name); });

  const int nodes = find_topology(comm).nodes;
  std::optional<BenchReport> report;
  on_all_ranks(comm, "opening the report", [&] {
    if (comm.rank() != 0) return;
    report.emplace(std::cout,
                   BenchReportOptions{
                       .ranks = comm.size(), .nodes = nodes, .compares = !arguments.compare.empty(), .json = arguments.json, .chart = arguments.svg});
  });
  Bench bench(comm, arguments, lanes, report ? &*report : nullptr);
  for (const Collective operation : bench_operations()) {
    if (contains(operations, bench_name(operation))) bench.run(operation);
  }
  if (report) report->finish();
  if (arguments.tune.empty()) return;
  const algorithms::Cluster cluster = cluster_of(comm);
  on_all_ranks(comm, "writing the selection of backends", [&] {
    if (comm.rank() != 0) return;
    replace_file(arguments.tune, bench.tuning().selection().to_toml(cluster));
    std::cout << "\nFastest backends, written to " << arguments.tune << ":\n" << bench.tuning().selection().to_text();
  });
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine");
  command->require_subcommand(1);
  CLI::App* comm =
      command->add_subcommand("comm", "Measure the collectives: every operation, backend and size, under mpirun with any number of ranks");
  auto arguments = std::make_shared<BenchArguments>();
  comm->add_option("--op", arguments->operations,
                   "Only these: barrier, broadcast, allreduce, reduce, allgather, reduce_scatter, alltoall, ping_pong");
  comm->add_option("--backend", arguments->backends, "Only these: shared_memory, shared_memory/in_place, mpi, hierarchical, ring, circulant, ...");
  const CLI::AsSizeValue size(/*kb_is_1000=*/true);
  comm->add_option("--min-bytes", arguments->min_bytes, "Smallest message, such as 8 or 64KiB")->default_str("8")->transform(size);
  comm->add_option("--max-bytes", arguments->max_bytes, "Largest message; sizes grow by factors of 4 and end with this one")
      ->default_str("64MiB")
      ->transform(size);
  comm->add_option("--rounds", arguments->rounds, "Number of timed calls, at least 10; by default 200 for small messages, down to 10 for large ones")
      ->check(CLI::Range(10, 1000000));
  comm->add_option("--compare", arguments->compare, "mpi: compare with MPI's own calls, measured in turns")->check(CLI::IsMember({"mpi"}));
  comm->add_option("--json", arguments->json, "File for JSON lines, one object per measurement");
  comm->add_option("--svg", arguments->svg, "File for a chart of the bus bandwidth");
  comm->add_option("--tune", arguments->tune,
                   "File for the fastest backends, for mesh.selection of a run on the same numbers of nodes and ranks per node");
  comm->add_option(
      "--predict", arguments->predict,
      "Measure nothing: predict by formula the times of operations on the cluster that this TOML file describes by nodes, ranks_per_node, "
      "and latency_us and gbit_per_second in the tables [between] nodes and [within] a node");
  comm->footer(how_measured);
  comm->callback([arguments, &session] { run_bench_comm(*arguments, session); });
}

}  // namespace tw::tool
