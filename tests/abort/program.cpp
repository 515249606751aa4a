// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <iostream>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel.hpp>

namespace {

struct Net : torch::nn::Module {
  Net(int64_t width, const std::string& second, torch::Dtype dtype) {
    register_module("first", torch::nn::Linear(3, 8));
    register_module(second, torch::nn::Linear(width, 4));
    to(dtype);
  }
};

void make_parallel(const tw::Communicator& comm, int odd_rank, const Net& usual, const Net& odd) {
  const bool is_odd = comm.rank() == odd_rank;
  const tw::DataParallel parallel(comm, is_odd ? odd : usual, {.reduction = tw::Reduction::mean});
}

void run(const std::string& scenario, const tw::Communicator& comm) {
  const bool wrong = comm.rank() == 1;
  tw::barrier(comm);  // the first use of a communicator involves all ranks
  const Net usual(8, "second", torch::kFloat);
  if (scenario == "uncaught" && wrong) throw std::runtime_error("the mesh is tangled");
  if (scenario == "leaves_scope" && wrong) throw tw::Error("the disk is full");
  if (scenario == "leaves_scope_foreign" && wrong) throw std::runtime_error("a message that is not ours");
  if (scenario == "contract") TW_EXPECTS(!wrong, "the batch is empty");
  if (scenario == "other_shapes") make_parallel(comm, 2, usual, Net(9, "second", torch::kFloat));
  if (scenario == "other_dtypes") make_parallel(comm, 1, usual, Net(8, "second", torch::kDouble));
  if (scenario == "other_names") make_parallel(comm, 2, usual, Net(8, "other", torch::kFloat));
  if (scenario == "other_reduction") {
    const tw::DataParallel parallel(comm, usual, {.reduction = wrong ? tw::Reduction::sum : tw::Reduction::mean});
  }
  if (scenario == "within_backward") {
    const tw::DataParallel parallel(comm, usual, {.reduction = tw::Reduction::mean});
    at::Tensor loss;
    for (const auto& parameter : usual.parameters()) loss = loss.defined() ? loss + parameter.sum() : parameter.sum();
    if (wrong) throw std::runtime_error("the loss has no gradient");
    loss.backward();
  }
  if (scenario == "dropped_work") {
    if (wrong) [[maybe_unused]]
      const tw::Work dropped = tw::iallreduce(comm, torch::ones({3}), tw::ReduceOp::sum);
    return;
  }
  comm.barrier();  // the healthy ranks wait here for the faulty one
  comm.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argv[1];
  const auto job = [&] {
    // An audit would stop earlier, at the call that only one rank makes.
    const tw::Environment mpi(argc, argv, {.audit = false, .drain_timeout = std::chrono::milliseconds(500)});
    run(scenario, mpi.world().dup());
  };
  if (scenario.rfind("leaves_scope", 0) != 0) {
    job();
    return 0;
  }
  try {
    job();
  } catch (const std::exception& error) {
    std::cerr << "caught after the scope: " << error.what() << std::endl;
  }
  return 1;
}
