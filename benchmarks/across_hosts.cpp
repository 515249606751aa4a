// SPDX-License-Identifier: Apache-2.0
// bench_across_hosts RATE: collectives over several hosts (tests/cluster/hosts.sh), as they go by default, against MPI's own on the same memory. Both
// take turns in the same processes, with fresh data. `times_bound` is our time over that which the bytes alone take on a link of RATE (such as
// 1gbit).
#include "measure.hpp"

#include <mpi.h>
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/mpi/interop.hpp>

namespace {

using tw::Collective;
using tw::benchmark::percentile;

struct Subject {
  Collective operation;
  std::function<void()> ours;
  std::function<void()> mpi;
};

double milliseconds(const tw::Communicator& comm, const std::function<void()>& call) {
  tw::barrier(comm);
  const tw::Stopwatch watch;
  call();
  double ms = 1e3 * watch.elapsed().count();
  tw::mpi::allreduce(comm, {&ms, 1, tw::ElementType::float64}, tw::ReduceOp::max);
  return ms;
}

// What each host's link has to carry in one direction.
double bound_ms(Collective operation, double bytes, int hosts, double bits_per_second) {
  const double share = (hosts - 1.0) / hosts * (operation == Collective::allreduce ? 2 : 1);
  return 1e3 * share * bytes * 8 / bits_per_second;
}

double bits_per_second(const std::string& rate) { return std::stod(rate) * (rate.find("gbit") != std::string::npos ? 1e9 : 1e6); }

void measure(const tw::Communicator& comm, const Subject& subject, const at::Tensor& data, int64_t bytes, const std::string& rate) {
  const int rounds = bytes < (1 << 20) ? 200 : 20;
  constexpr int warm_up = 5;
  std::vector<double> ours, theirs;
  for (int round = -warm_up; round < rounds; ++round) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_ours = (round + warm_up + turn) % 2 == 0;
      data.fill_(1);
      const double ms = milliseconds(comm, is_ours ? subject.ours : subject.mpi);
      if (round >= 0) (is_ours ? ours : theirs).push_back(ms);
    }
  }
  const tw::algorithms::Cluster cluster = tw::cluster_of(comm);
  const std::string backend = tw::selection(comm).choice(subject.operation, bytes)->backend;
  if (comm.rank() != 0) return;
  const double median = percentile(ours, 0.5);
  std::cout << nlohmann::ordered_json{{"benchmark", tw::concat("comm/across_hosts/", tw::name_of(subject.operation))},
                                      {"case", tw::concat(bytes >= 1 << 20 ? tw::concat(bytes >> 20, "MiB") : tw::concat(bytes >> 10, "KiB"), "_",
                                                          cluster.nodes, "x", cluster.ranks_per_node, "_", rate)},
                                      {"ranks", comm.size()},
                                      {"baseline", "mpi"},
                                      {"baseline_ms", percentile(theirs, 0.5)},
                                      {"ours_ms", median},
                                      {"ratio", percentile(theirs, 0.5) / median},
                                      {"rounds", rounds},
                                      {"spread", (percentile(ours, 0.9) - percentile(ours, 0.1)) / median},
                                      {"times_bound",
                                       median / bound_ms(subject.operation, static_cast<double>(bytes), cluster.nodes, bits_per_second(rate))},
                                      {"backend", backend}}
            << std::endl;
}

void measure_all(const tw::Communicator& comm, const std::string& rate) {
  const MPI_Comm native = tw::native_handle(comm);
  for (const int64_t bytes : {int64_t{1} << 10, int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20}) {
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

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  torch::set_num_threads(1);
  measure_all(mpi.world().dup(), argc > 1 ? argv[1] : "1gbit");
}
