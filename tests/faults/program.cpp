// SPDX-License-Identifier: Apache-2.0
// Faults of a distributed program, one scenario per run: program SCENARIO [BACKEND]. Rank 1 has the fault.
#include <sys/resource.h>
#include <torch/torch.h>

#include <accelerator.hpp>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nccl_double.hpp>
#include <thread>
#include <tw/comm/pending_scalar.hpp>
#include <tw/data_parallel.hpp>
#include <tw/mpi/mailbox.hpp>
#include <tw/mpi/rpc_client.hpp>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>
#include <tw/state/checkpoint_store.hpp>

namespace {

using namespace std::chrono_literals;

struct Scene {
  tw::Environment& mpi;
  const tw::Communicator& comm;
  bool faulty;

  void say(const std::string& text) const {
    if (comm.rank() == 0) std::cout << text << std::endl;
  }
};

void sum(const tw::Communicator& comm, int64_t size = 4) { tw::allreduce(comm, torch::ones({size}), tw::ReduceOp::sum); }

[[noreturn]] void compute_for_ever() {
  while (true) std::this_thread::sleep_for(10ms);
}

/// Backward passes of a small network in several buckets.
class Training {
 public:
  explicit Training(const Scene& scene, decltype(tw::DataParallelOptions::on_bucket) on_bucket = {})
      : parallel_(scene.comm, *net_,
                  {.reduction = tw::Reduction::mean,
                   .buckets = {.first_bucket_bytes = 256, .bucket_bytes = 1024},
                   .overlap = true,
                   .on_bucket = std::move(on_bucket)}) {}
  void backward() { net_->forward(torch::ones({4, 16})).sum().backward(); }

 private:
  torch::nn::Sequential net_{torch::nn::Linear(16, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16), torch::nn::Tanh(), torch::nn::Linear(16, 4)};
  tw::DataParallel parallel_;
};

// ---- the job must end, with a message ----

void other_sizes(const Scene& scene) { sum(scene.comm, scene.faulty ? 8 : 4); }

void other_order(const Scene& scene) {
  if (scene.faulty) tw::broadcast(scene.comm, torch::ones({4}), tw::Rank(0));
  sum(scene.comm);
}

void late(const Scene& scene) {
  if (scene.faulty) compute_for_ever();
  sum(scene.comm, 16);
}

// MPI is running already when the watchdog's limits are set.
void late_for_a_shorter_wait(const Scene& scene) {
  scene.mpi.watch(300ms, 900ms);
  late(scene);
}

void never_sends(const Scene& scene) {
  if (scene.faulty) compute_for_ever();
  if (scene.comm.rank() == 0) tw::recv(scene.comm, torch::ones({4}), tw::Rank(1));
  compute_for_ever();
}

// Two ranks wait for each other, on a communicator whose ranks share no memory yet.
void both_receive(const Scene& scene) {
  const tw::Communicator comm = scene.comm.dup();
  if (comm.rank() < 2) tw::recv(comm, torch::ones({4}), tw::Rank(1 - comm.rank()));
  compute_for_ever();
}

void killed(const Scene& scene) {
  if (scene.faulty) std::raise(SIGKILL);
  sum(scene.comm);
}

void one_backward_less(const Scene& scene) {
  Training training(scene);
  training.backward();
  if (!scene.faulty) training.backward();
  tw::barrier(scene.comm);
}

// It has fewer batches than the others, and leaves.
void left(const Scene& scene) {
  Training training(scene);
  for (int batch = 0; batch < (scene.faulty ? 2 : 3); ++batch) training.backward();
}

void left_world(const Scene& scene) {
  const tw::Communicator& world = scene.mpi.world();
  for (int round = 0; round < (scene.faulty ? 2 : 3); ++round) sum(world);
}

void killed_between_buckets(const Scene& scene) {
  Training training(scene, [&](int64_t bucket, auto, auto) {
    if (scene.faulty && bucket == 1) std::raise(SIGKILL);
  });
  training.backward();
  training.backward();
}

void stopped(const Scene& scene) {
  if (scene.faulty) std::raise(SIGSTOP);
  sum(scene.comm);
}

// ---- other kinds of waits, for a stopped rank ----

// A server answers no call: its queue holds 16.
void stopped_server(const Scene& scene) {
  if (scene.faulty) std::raise(SIGSTOP);
  if (scene.comm.rank() != 0) compute_for_ever();
  tw::mpi::RpcClient client(scene.comm);
  const std::array<std::byte, 8> request{};
  std::vector<tw::Work> calls;
  for (int i = 0; i < 17; ++i) {
    calls.push_back(tw::mpi::start(scene.comm, {.collective = tw::Collective::send, .peer = 1}, client.call(tw::Rank(1), {.request = request})));
  }
}

void stopped_reader(const Scene& scene) {
  tw::mpi::Mailbox mailbox(scene.comm);
  scene.comm.barrier();
  if (scene.faulty) std::raise(SIGSTOP);
  if (scene.comm.rank() != 0) compute_for_ever();
  while (true) mailbox.send(std::vector<std::byte>(100'000), tw::Rank(1));
}

void stopped_before_finish(const Scene& scene) {
  tw::parameter_server::ShardedTensor values(scene.comm, torch::zeros({8}), {.servers = {1}, .share_memory = false});
  if (scene.faulty) std::raise(SIGSTOP);
  if (scene.comm.rank() == 0) [[maybe_unused]]
    const auto dropped = values.push(torch::ones({8}), "add");
  values.finish();
}

// It holds the lock of the values it has begun to push to.
void stopped_with_a_lock(const Scene& scene) {
  using namespace tw::parameter_server;
  const Rule stops{.name = "stops", .apply = [&](const Chunk&) {
                     if (scene.faulty) std::raise(SIGSTOP);
                   }};
  ShardedTensor values(scene.comm, torch::zeros({8}), {.rules = {stops}, .servers = {0}});
  if (scene.faulty) [[maybe_unused]]
    const auto pushed = values.push(torch::ones({8}));
  while (true) {  // until the lock is taken
    const auto pulled = values.prefetch();
    std::this_thread::sleep_for(1ms);
  }
}

/// Two workers that make every step together, through server 0.
class Workers {
 public:
  Workers(const Scene& scene, bool dedicated)
      : weights_(torch::zeros({4}, at::TensorOptions().requires_grad(true))),
        workers_(scene.comm, {weights_}, {.staleness = 0, .roles = {.servers = {0}, .dedicated = dedicated}}) {}
  void step() {
    weights_.sum().backward();
    workers_.step();
  }
  void finish() { workers_.finish(); }

 private:
  at::Tensor weights_;
  tw::parameter_server::StaleSynchronous workers_;
};

void stopped_at_a_clock(const Scene& scene) {
  Workers workers(scene, /*dedicated=*/false);
  if (scene.faulty) std::raise(SIGSTOP);
  workers.step();
}

void stopped_worker_before_finish(const Scene& scene) {
  Workers workers(scene, /*dedicated=*/true);
  if (scene.faulty) std::raise(SIGSTOP);
  workers.finish();
}

void stopped_before_the_end(const Scene& scene) {
  if (scene.faulty) std::raise(SIGSTOP);
}

void stopped_while_saving(const Scene& scene) {
  tw::CheckpointStore store(scene.comm, std::filesystem::current_path() / "stopped_while_saving", {});  // its files remain: no rank is left to remove
                                                                                                        // them
  tw::NamedShard mine;
  mine.name = "weights";
  mine.global_shape = {scene.comm.size(), 1 << 20};
  mine.tensor = torch::ones({1, 1 << 20});
  mine.offsets = {scene.comm.rank(), 0};
  store.save(1, {mine}, "");  // continues in a thread
  if (scene.faulty) std::raise(SIGSTOP);
  store.wait();
}

void stopped_in_call(const Scene& scene) {
  tw::Work work = tw::iallreduce(scene.comm, torch::ones({1 << 22}), tw::ReduceOp::sum);
  if (scene.faulty) std::raise(SIGSTOP);
  work.wait();
}

void thrown_out(const Scene& scene) {
  if (scene.faulty) throw tw::Error("the sensor is gone");
  sum(scene.comm);
}

// A stopped rank cannot be waited for, nor can it leave MPI cleanly. The others continue without it, and end the job when they are done.
void revoke_and_go_on(const Scene& scene) {
  if (scene.faulty) std::raise(SIGSTOP);
  try {
    tw::Work work = tw::iallreduce(scene.comm, torch::ones({4}), tw::ReduceOp::sum);
    if (scene.comm.rank() != 0) work.wait();  // released by rank 0
    if (work.wait_for(300ms)) throw tw::Error("it should not have completed");
    scene.comm.revoke("rank 1 does not answer");
    work.wait();
  } catch (const tw::RevokedError&) {
    std::vector<tw::Rank> survivors;
    for (int rank = 0; rank < scene.comm.size(); ++rank) {
      if (rank != 1) survivors.emplace_back(rank);
    }
    const tw::Communicator rest = scene.comm.subset(survivors);
    const at::Tensor count = torch::ones({1000});
    tw::allreduce(rest, count, tw::ReduceOp::sum);
    tw::barrier(rest);
    if (rest.rank() == 0) tw::Environment::abort(tw::concat("done with ", count[0].item<float>(), " survivors"));
    compute_for_ever();  // until rank 0 ends the job
  }
}

// ---- the job continues ----

// A trial on part of the ranks: one of them gives up, and all return for the next.
void revoke(const Scene& scene) {
  for (int trial = 0; trial < 20; ++trial) {
    const tw::Communicator comm = scene.comm.dup();
    const tw::Communicator part = comm.split(0, scene.comm.rank());  // as a strategy inside the trial makes for itself
    std::string heard = "nothing";
    try {
      sum(part);
      if (scene.faulty) {
        comm.revoke("the loss is not a number");
        throw tw::Error("given up");
      }
      while (true) sum(part, 1000);
    } catch (const tw::RevokedError& error) {
      heard = error.what();
    } catch (const tw::Error& error) {
      heard = error.what();
    }
    const bool right = heard.find(scene.faulty ? "given up" : "rank 1 revoked it: the loss is not a number") != std::string::npos;
    if (!right) throw tw::Error("heard: " + heard);
    try {
      sum(comm);
      throw tw::Error("a revoked communicator was used");
    } catch (const tw::RevokedError&) {
    }
  }
  sum(scene.comm);
  scene.say("all are back after 20 trials");
}

void mismatch_and_go_on(const Scene& scene) {
  for (int round = 0; round < 10; ++round) {
    try {
      sum(scene.comm, scene.faulty ? 8 : 4);
      throw tw::Error("no mismatch was found");
    } catch (const tw::ContractError&) {
    }
    try {  // in a group in which only one call differs
      tw::allreduce(scene.comm, {torch::ones({3}, torch::kLong), torch::ones({scene.faulty ? 8 : 4}), torch::ones({5}, torch::kDouble)},
                    tw::ReduceOp::sum);
      throw tw::Error("no mismatch was found");
    } catch (const tw::ContractError&) {
    }
    sum(scene.comm);
  }
  scene.say("ten mismatches survived");
}

int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

void small_memory(const Scene& scene) {
  if (scene.faulty) {
    const auto limit = static_cast<rlim_t>(address_space() + (int64_t{256} << 20));
    const rlimit address_limit{limit, limit};
    ::setrlimit(RLIMIT_AS, &address_limit);
  }
  try {
    (void)tw::shared_tensor(scene.comm, {int64_t{1} << 28}, torch::kFloat);
    throw tw::ContractError("there was room");
  } catch (const tw::Error& error) {
    scene.say(error.what());
  }
  sum(scene.comm);
  scene.say("and it goes on");
}

// The others' streams wait for rank 1 through NCCL, and their hosts for the streams.
void late_in_stream(const Scene& scene) {
  tw::testing::accelerator::install();
  tw::testing::accelerator::offer_nccl();
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  const at::Tensor x = torch::ones({4}, at::TensorOptions().device(tw::testing::accelerator::device()));
  tw::iallreduce(scene.comm, x, tw::ReduceOp::sum).wait_on_host();
  if (scene.faulty) compute_for_ever();
  tw::allreduce(scene.comm, x, tw::ReduceOp::sum);  // its wait returns at once
  (void)tw::PendingScalar(x.sum()).value(scene.comm);
}

// Rank 0 only serves, and waits for the workers longer than the watchdog would.
void patient_server(const Scene& scene) {
  Workers workers(scene, /*dedicated=*/true);
  if (scene.comm.rank() != 0) std::this_thread::sleep_for(1200ms);
  if (scene.comm.rank() != 0) workers.step();
  workers.finish();
  scene.say("all have come");
}

void stall_warning_only(const Scene& scene) {
  if (scene.faulty) std::this_thread::sleep_for(800ms);  // late, but it arrives
  sum(scene.comm);
  scene.say("it came");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argv[1];
  const bool warns_only = scenario == "stall_warning_only";
  const bool patient = scenario == "killed" || scenario == "late_for_a_shorter_wait" || scenario == "killed_between_buckets" ||
                       scenario == "thrown_out" || scenario.rfind("left", 0) == 0;  // another mechanism ends the job there, not this watchdog
  tw::Environment mpi(argc, argv, {.audit = false, .stall_warning = patient ? 60s : 300ms, .stall_abort = warns_only || patient ? 60s : 900ms});
  const tw::Communicator comm = mpi.world().dup();
  if (argc > 2) tw::choose_backend(comm, std::string(argv[2]));
  tw::barrier(comm);
  const Scene scene{mpi, comm, comm.rank() == 1};
  const std::map<std::string, void (*)(const Scene&)> scenes{{"other_sizes", other_sizes},
                                                             {"other_order", other_order},
                                                             {"late", late},
                                                             {"late_for_a_shorter_wait", late_for_a_shorter_wait},
                                                             {"late_in_stream", late_in_stream},
                                                             {"never_sends", never_sends},
                                                             {"both_receive", both_receive},
                                                             {"killed", killed},
                                                             {"left", left},
                                                             {"left_world", left_world},
                                                             {"killed_between_buckets", killed_between_buckets},
                                                             {"one_backward_less", one_backward_less},
                                                             {"stopped", stopped},
                                                             {"stopped_server", stopped_server},
                                                             {"stopped_reader", stopped_reader},
                                                             {"stopped_before_finish", stopped_before_finish},
                                                             {"stopped_with_a_lock", stopped_with_a_lock},
                                                             {"stopped_at_a_clock", stopped_at_a_clock},
                                                             {"stopped_worker_before_finish", stopped_worker_before_finish},
                                                             {"stopped_before_the_end", stopped_before_the_end},
                                                             {"patient_server", patient_server},
                                                             {"stopped_while_saving", stopped_while_saving},
                                                             {"stopped_in_call", stopped_in_call},
                                                             {"thrown_out", thrown_out},
                                                             {"revoke_and_go_on", revoke_and_go_on},
                                                             {"revoke", revoke},
                                                             {"mismatch_and_go_on", mismatch_and_go_on},
                                                             {"small_memory", small_memory},
                                                             {"stall_warning_only", stall_warning_only}};
  scenes.at(scenario)(scene);
}
