// SPDX-License-Identifier: Apache-2.0
// bench_across_hosts default|in_flight|ways|FILE RATE: collectives over several hosts (tests/cluster/hosts.sh), with fresh data.
//
// default: the default algorithms, against MPI's collectives on the same memory, in turns in the same processes. `times_bound` is our time divided by
// the time that the bytes alone take on a link of RATE (such as 1gbit).
// in_flight: only the part of `default` with many small collectives in flight.
// ways: every available algorithm, against its predicted cost on a cluster whose links were measured just before, by messages of all ranks together.
// FILE: with the selections in a file of `torchweave bench comm --tune`, against the default, in turns.
#include "measure.hpp"

#include <mpi.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <tw/comm.hpp>
#include <tw/mpi/interop.hpp>

namespace {

using tw::Collective;
using tw::benchmark::percentile;

struct Subject {
  Collective operation;
  std::function<void()> ours;
  std::function<void()> baseline;
};

// The rank with the same local number, `hosts` hosts further on.
tw::Rank on_other_host(const tw::Communicator& comm, int hosts) {
  const int ranks = comm.size();
  return tw::Rank((comm.rank() + hosts * tw::cluster_of(comm).ranks_per_node + ranks) % ranks);
}

// After a pause, a link of hosts.sh passes the bytes of 1 ms immediately (tbf's burst). A link that was just full has no burst left.
void fill_links(const tw::Communicator& comm) {
  static const at::Tensor out = torch::zeros({256 << 10}, torch::kByte), in = out.clone();
  tw::sendrecv(comm, out, on_other_host(comm, 1), in, on_other_host(comm, -1));
}

double milliseconds(const tw::Communicator& comm, int64_t bytes, const std::function<void()>& call) {
  if (bytes >= 64 << 10) fill_links(comm);
  tw::barrier(comm);
  const tw::Stopwatch watch;
  call();
  double ms = 1e3 * watch.elapsed().count();
  tw::mpi::allreduce(comm, {&ms, 1, tw::ElementType::float64}, tw::ReduceOp::max);
  return ms;
}

// The time for the bytes that each host's link must carry in one direction.
double bound_ms(Collective operation, double bytes, int hosts, double bits_per_second) {
  const double share = (hosts - 1.0) / hosts * (operation == Collective::allreduce ? 2 : 1);
  return 1e3 * share * bytes * 8 / bits_per_second;
}

double bits_per_second(const std::string& rate) { return std::stod(rate) * (rate.find("gbit") != std::string::npos ? 1e9 : 1e6); }

std::string size_name(int64_t bytes) { return bytes >= 1 << 20 ? tw::concat(bytes >> 20, "MiB") : tw::concat(bytes >> 10, "KiB"); }

/// Times of our calls and of the baseline's, by round.
struct Turns {
  std::vector<double> ours;
  std::vector<double> baseline;
};

Turns take_turns(const tw::Communicator& comm, const Subject& subject, const at::Tensor& data, int rounds) {
  constexpr int warm_up = 5;
  Turns turns;
  for (int round = -warm_up; round < rounds; ++round) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_ours = (round + warm_up + turn) % 2 == 0;
      data.fill_(1);
      const double ms = milliseconds(comm, data.nbytes(), is_ours ? subject.ours : subject.baseline);
      if (round >= 0) (is_ours ? turns.ours : turns.baseline).push_back(ms);
    }
  }
  return turns;
}

nlohmann::ordered_json record(const tw::Communicator& comm, std::string_view name, const std::string& size, const std::string& rate,
                              const Turns& turns) {
  const tw::algorithms::Cluster cluster = tw::cluster_of(comm);
  const double median = percentile(turns.ours, 0.5);
  return {{"benchmark", tw::concat("comm/across_hosts/", name)},
          {"case", tw::concat(size, "_", cluster.nodes, "x", cluster.ranks_per_node, "_", rate)},
          {"ranks", comm.size()},
          {"baseline", "mpi"},
          {"baseline_ms", percentile(turns.baseline, 0.5)},
          {"ours_ms", median},
          {"ratio", percentile(turns.baseline, 0.5) / median},
          {"rounds", turns.ours.size()},
          {"spread", (percentile(turns.ours, 0.9) - percentile(turns.ours, 0.1)) / median}};
}

void measure(const tw::Communicator& comm, const Subject& subject, const at::Tensor& data, int64_t bytes, const std::string& rate) {
  const Turns turns = take_turns(comm, subject, data, bytes < (1 << 20) ? 200 : 20);
  auto json = record(comm, tw::name_of(subject.operation), size_name(bytes), rate, turns);
  json["times_bound"] =
      percentile(turns.ours, 0.5) / bound_ms(subject.operation, static_cast<double>(bytes), tw::cluster_of(comm).nodes, bits_per_second(rate));
  json["backend"] = tw::selection(comm).choice(subject.operation, bytes)->backend;
  if (comm.rank() == 0) std::cout << json << std::endl;
}

// Many small collectives that are all begun before any is waited for.
void measure_in_flight(const tw::Communicator& comm, const std::string& rate) {
  constexpr int calls = 1000;
  constexpr int floats = 256;
  const MPI_Comm native = tw::native_handle(comm);
  const at::Tensor data = torch::zeros({calls, floats});
  const std::vector<at::Tensor> pieces = data.unbind();
  const auto ours = [&] {
    std::vector<tw::Work> works;
    for (const at::Tensor& piece : pieces) works.push_back(tw::iallreduce(comm, piece, tw::ReduceOp::sum));
    for (tw::Work& work : works) work.wait();
  };
  const auto mpi = [&] {
    std::vector<MPI_Request> requests(calls);
    for (size_t i = 0; i < calls; ++i) MPI_Iallreduce(MPI_IN_PLACE, pieces[i].data_ptr(), floats, MPI_FLOAT, MPI_SUM, native, &requests[i]);
    MPI_Waitall(calls, requests.data(), MPI_STATUSES_IGNORE);
  };
  const auto json = record(comm, "in_flight", "1000x1KiB", rate, take_turns(comm, {Collective::allreduce, ours, mpi}, data, 10));
  if (comm.rank() == 0) std::cout << json << std::endl;
}

constexpr std::array sizes{int64_t{1} << 10, int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20};

void measure_all(const tw::Communicator& comm, const std::string& rate) {
  const MPI_Comm native = tw::native_handle(comm);
  for (const int64_t bytes : sizes) {
    const at::Tensor whole = torch::zeros({bytes / 4});
    const at::Tensor part = torch::zeros({bytes / 4 / comm.size()});
    const auto count = static_cast<int>(whole.numel());
    const auto count_of_part = static_cast<int>(part.numel());
    void* all = whole.data_ptr();
    void* one = part.data_ptr();
    const std::vector<Subject> subjects{
        {Collective::allreduce, [&] { tw::allreduce(comm, whole, tw::ReduceOp::sum); },
         [=] { MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_FLOAT, MPI_SUM, native); }},
        {Collective::reduce_scatter, [&] { tw::reduce_scatter(comm, whole, part, tw::ReduceOp::sum); },
         [=] { MPI_Reduce_scatter_block(all, one, count_of_part, MPI_FLOAT, MPI_SUM, native); }},
        {Collective::allgather, [&] { tw::allgather(comm, part, whole); },
         [=] { MPI_Allgather(one, count_of_part, MPI_FLOAT, all, count_of_part, MPI_FLOAT, native); }},
    };
    for (const Subject& subject : subjects) measure(comm, subject, whole, bytes, rate);
  }
}

// Compares communicators that differ only in their selections.
void measure_tuned(const tw::Communicator& comm, const std::string& file, const std::string& rate) {
  const tw::Communicator tuned = comm.dup();
  tw::select_backends(tuned, tw::algorithms::Selection::from_file(file, tw::cluster_of(tuned), tw::backend_names(tuned)));
  for (const int64_t bytes : sizes) {
    const at::Tensor whole = torch::zeros({bytes / 4}), part = torch::zeros({bytes / 4 / comm.size()});
    const auto both = [&](Collective operation, const std::function<void(const tw::Communicator&)>& call) {
      const Subject subject{operation, [&] { call(tuned); }, [&] { call(comm); }};
      auto json = record(comm, tw::name_of(operation), size_name(bytes), rate, take_turns(comm, subject, whole, bytes < 1 << 20 ? 200 : 20));
      json["baseline"] = "default";
      json["backend"] = tw::selection(tuned).choice(operation, bytes)->backend;
      if (comm.rank() == 0) std::cout << json << std::endl;
    };
    both(Collective::allreduce, [&](const tw::Communicator& of) { tw::allreduce(of, whole, tw::ReduceOp::sum); });
    both(Collective::reduce_scatter, [&](const tw::Communicator& of) { tw::reduce_scatter(of, whole, part, tw::ReduceOp::sum); });
    both(Collective::allgather, [&](const tw::Communicator& of) { tw::allgather(of, part, whole); });
  }
}

/// Cost of messages while each rank of a node sends one to `to` and receives one from `from`: the latency of one message, and the shared bandwidth.
tw::algorithms::LinkCost measured_link(const tw::Communicator& comm, tw::Rank to, tw::Rank from, int senders) {
  using Exchange = std::function<void(const at::Tensor& out, const at::Tensor& in)>;
  const auto median_ms = [&](int64_t bytes, int rounds, const Exchange& exchange) {
    const at::Tensor out = torch::zeros({bytes}, torch::kByte), in = torch::zeros({bytes}, torch::kByte);
    std::vector<double> ms;
    for (int round = -2; round < rounds; ++round) {
      const double taken = milliseconds(comm, bytes, [&] { exchange(out, in); });
      if (round >= 0) ms.push_back(taken);
    }
    return percentile(ms, 0.5);
  };
  constexpr int turns = 4;  // about the number of rounds of a collective with few ranks
  const double latency = median_ms(8, 100,
                                   [&](const at::Tensor& out, const at::Tensor& in) {
                                     for (int i = 0; i < turns; ++i) tw::sendrecv(comm, out, to, in, from);
                                   }) /
                         turns;
  constexpr int64_t large = 8 << 20;
  const double all = median_ms(large / senders, 10, [&](const at::Tensor& out, const at::Tensor& in) {  // in pieces, as plans do
    constexpr int64_t piece = 32 << 10;
    std::vector<tw::Work> works;
    for (int64_t begin = 0; begin < out.numel(); begin += piece) {
      const int64_t bytes = std::min(piece, out.numel() - begin);
      works.push_back(tw::isendrecv(comm, out.narrow(0, begin, bytes), to, in.narrow(0, begin, bytes), from));
    }
    for (tw::Work& work : works) work.wait();
  });
  return {std::chrono::duration<double>(latency / 1e3), 1e3 * static_cast<double>(large) / (all - latency)};
}

tw::algorithms::Cluster measured_cluster(const tw::Communicator& comm) {
  tw::algorithms::Cluster cluster = tw::cluster_of(comm);
  const int local = cluster.ranks_per_node;
  cluster.between = measured_link(comm, on_other_host(comm, 1), on_other_host(comm, -1), local);
  if (local == 1) return cluster;
  const int first = comm.rank() / local * local;
  cluster.within = measured_link(comm, tw::Rank(first + (comm.rank() + 1) % local), tw::Rank(first + (comm.rank() + local - 1) % local), local);
  return cluster;
}

void measure_ways(const tw::Communicator& comm, const std::string& rate) {
  const tw::algorithms::Cluster cluster = measured_cluster(comm);
  std::vector<double> errors;
  for (const int64_t bytes : sizes) {
    const at::Tensor whole = torch::zeros({bytes / 4}), part = torch::zeros({bytes / 4 / comm.size()});
    const std::vector<std::pair<Collective, std::function<void()>>> operations{
        {Collective::allreduce, [&] { tw::allreduce(comm, whole, tw::ReduceOp::sum); }},
        {Collective::reduce_scatter, [&] { tw::reduce_scatter(comm, whole, part, tw::ReduceOp::sum); }},
        {Collective::allgather, [&] { tw::allgather(comm, part, whole); }},
    };
    for (const auto& [operation, call] : operations) {
      std::vector<std::string_view> ways = tw::algorithms::methods_for(operation, cluster);
      ways.push_back("mpi");
      for (const std::string_view way : ways) {
        tw::choose_backend(comm, std::string(way));
        std::vector<double> ms;
        const int rounds = bytes < 1 << 20 ? 50 : 10;
        for (int round = -3; round < rounds; ++round) {
          whole.fill_(1);
          const double taken = milliseconds(comm, bytes, call);
          if (round >= 0) ms.push_back(taken);
        }
        const double median = percentile(ms, 0.5);
        if (way == "mpi") {
          if (comm.rank() == 0)
            std::cout << nlohmann::ordered_json{{"benchmark", tw::concat("comm/ways/", tw::name_of(operation))},
                                                {"case", tw::concat(size_name(bytes), "_mpi")},
                                                {"ours_ms", median}}
                      << std::endl;
          continue;
        }
        const double predicted = 1e3 * tw::algorithms::price_of(way, operation, cluster, bytes).total().count();
        errors.push_back(std::abs(predicted / median - 1));
        if (comm.rank() != 0) continue;
        std::cout << nlohmann::ordered_json{{"benchmark", tw::concat("comm/ways/", tw::name_of(operation))},
                                            {"case",
                                             tw::concat(size_name(bytes), "_", way, "_", cluster.nodes, "x", cluster.ranks_per_node, "_", rate)},
                                            {"ranks", comm.size()},
                                            {"baseline", "prediction"},
                                            {"baseline_ms", predicted},
                                            {"ours_ms", median},
                                            {"ratio", predicted / median},
                                            {"rounds", rounds},
                                            {"spread", (percentile(ms, 0.9) - percentile(ms, 0.1)) / median},
                                            {"error", errors.back()}}
                  << std::endl;
      }
    }
  }
  tw::choose_backend(comm, std::nullopt);
  if (comm.rank() != 0) return;
  std::cout << nlohmann::ordered_json{{"benchmark", "comm/ways"},
                                      {"case", tw::concat("all_", cluster.nodes, "x", cluster.ranks_per_node, "_", rate)},
                                      {"ranks", comm.size()},
                                      {"between_us", 1e6 * cluster.between.latency.count()},
                                      {"between_mbit_per_s", 8e-6 * cluster.between.bytes_per_second},
                                      {"within_us", 1e6 * cluster.within.latency.count()},
                                      {"within_mbit_per_s", 8e-6 * cluster.within.bytes_per_second},
                                      {"median_error", percentile(errors, 0.5)},
                                      {"worst_error", percentile(errors, 1)}}
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  torch::set_num_threads(1);
  const std::string rate = argc > 2 ? argv[2] : "1gbit";
  const std::string what = argc > 1 ? argv[1] : "default";
  const tw::Communicator comm = mpi.world().dup();
  if (what == "default") {
    measure_all(comm, rate);
    measure_in_flight(comm, rate);
  } else if (what == "in_flight") {
    measure_in_flight(comm, rate);
  } else if (what == "ways") {
    measure_ways(comm, rate);
  } else {
    measure_tuned(comm, what, rate);
  }
}
