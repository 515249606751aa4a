// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "gpu_direct.hpp"
#include "half_arithmetic.hpp"
#include "launcher_match.hpp"
#include "leftovers.hpp"
#include "written_output.hpp"

#include <ATen/Parallel.h>
#include <sys/statvfs.h>
#include <torch/version.h>

#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/vector_clones.hpp>
#include <tw/comm/backend.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/version.hpp>

namespace tw::tool {
namespace {

/// One line of the report; `advice` says what to do and is empty when all is well.
struct Finding {
  std::string name;
  std::string value;
  std::string advice;
};

std::set<std::string> openmp_runtimes() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* name : {"libgomp", "libomp", "libiomp"}) {
      if (line.find(name) != std::string::npos) found.insert(line.substr(line.find('/')));
    }
  }
  return found;
}

Finding check_openmp() {
  const auto runtimes = openmp_runtimes();
  std::string value = std::to_string(runtimes.size());
  for (const auto& path : runtimes) value += " " + path;
  return {"OpenMP runtimes", value,
          runtimes.size() > 1 ? "build without -fopenmp: LibTorch has its own OpenMP runtime, and two runtimes compete for the cores" : ""};
}

Finding check_launcher(int ranks) {
  std::string mismatch = launcher_mismatch(variable, ranks);
  return {"launcher", mismatch.empty() ? "agrees with MPI, or there is none" : "belongs to another MPI", std::move(mismatch)};
}

Finding check_threads(const Topology& topology) {
  const int threads = at::get_num_threads();
  return {"threads", concat(threads, " per rank, which has ", topology.cores, topology.cores == 1 ? " core" : " cores"),
          threads > topology.cores ? concat("set OMP_NUM_THREADS=", topology.cores, ": threads that outnumber the cores slow each other down") : ""};
}

Finding check_shared_memory() {
  struct statvfs info{};
  if (::statvfs("/dev/shm", &info) != 0) return {"/dev/shm", "absent", "mount a tmpfs there: Open MPI's messages inside a node need it"};
  const double mib = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) / (1 << 20);
  return {"/dev/shm", concat(static_cast<int64_t>(mib), " MiB free"), mib < 64 ? "allow at least 64 MiB (docker run --shm-size=1g)" : ""};
}

// Open MPI removes its files when a job ends, unless mpirun was killed.
Finding check_leftovers() {
  const auto left = left_by_open_mpi("/dev/shm");
  if (left.empty()) return {"left in memory", "nothing", ""};
  std::string advice = "jobs that were killed have left these files, unless a job in another container uses them; to free the memory: rm";
  for (const auto& path : left) advice += " " + path.string();
  return {"left in memory", concat(left.size(), left.size() == 1 ? " segment" : " segments", " of Open MPI that no process uses"), advice};
}

// Creates memory that the ranks of a node share, and runs an all-reduce in it.
Finding check_node_memory(const Communicator& comm) {
  try {
    const at::Tensor tensor = shared_tensor(comm, {1 << 18}, at::kFloat);
    allreduce(comm, tensor, ReduceOp::sum);
    std::string backends;
    for (const Availability& entry : availability(comm)) {
      if (entry.collective == Collective::allreduce && !entry.on_device && entry.chosen)
        backends += (backends.empty() ? "" : " and ") + entry.backend;
    }
    return {"node's memory", "works; all-reduce by " + backends, ""};
  } catch (const Error& error) {
    return {"node's memory", error.what(), "without shared memory, the ranks of a node cannot work together"};
  }
}

// One line per rank: its node, and the cores and threads that it may use.
std::vector<std::string> placements(const Communicator& comm, const Topology& topology) {
  return allgather_strings(
      comm, concat("rank ", comm.rank(), ": node ", topology.node_index, " (", topology.node, "), local rank ", topology.local_rank, " of ",
                   topology.local_size, ", ", topology.cores, topology.cores == 1 ? " core, " : " cores, ", at::get_num_threads(),
                   at::get_num_threads() == 1 ? " thread" : " threads"));
}

std::vector<Finding> examine(const Environment& mpi) {
  const Communicator comm = mpi.world().dup();
  const Topology topology = find_topology(comm);
  std::vector<Finding> findings{
      {"Torchweave", std::string(version_string), ""},
      {"LibTorch", TORCH_VERSION, ""},
      {"MPI", Environment::library_version(), ""},
      {"thread level", std::string(to_string(mpi.thread_level())), ""},
      {"ranks", concat(mpi.world().size(), " on ", topology.nodes, topology.nodes == 1 ? " node" : " nodes", " (", topology.node, ")"),
       mpi.world().size() == 1 ? "to examine several ranks: mpirun -n 2 torchweave doctor" : ""},
      check_launcher(mpi.world().size()),
      check_threads(topology),
      check_openmp(),
      {"vector loops", concat(vector_instructions(), ", for reductions, scaling and the rules of parameter servers"), ""},
      {"half precision", describe(half_arithmetic()), ""},
      check_shared_memory(),
      check_leftovers(),
      check_node_memory(comm),
  };
  for (const std::string& placement : placements(comm, topology)) findings.push_back({"placement", placement, ""});
  return findings;
}

void run_doctor(const Environment& mpi) {
  const auto findings = examine(mpi);  // on every rank: it is collective
  if (mpi.world().rank() != 0) return;
  for (const Finding& finding : findings) {
    std::cout << std::left << std::setw(18) << finding.name << finding.value << '\n';
    if (!finding.advice.empty()) std::cout << std::setw(18) << "" << "-> " << finding.advice << '\n';
  }
  expect_output_written();
}

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* doctor = app.add_subcommand("doctor", "Examine MPI, LibTorch, threads and memory of this machine, and report what to fix");
  const auto direct = std::make_shared<bool>(false);
  doctor->add_flag("--gpu-direct", *direct, "Test instead, on two ranks, whether MPI accepts GPU memory");
  doctor->callback([&session, direct] {
    if (!*direct) return run_doctor(session.mpi());
    throw CLI::RuntimeError(run_gpu_direct([](const auto& test) { test(Environment()); }));
  });
}

}  // namespace tw::tool
