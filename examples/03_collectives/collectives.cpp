// SPDX-License-Identifier: Apache-2.0
// Collectives on tensors: blocking and non-blocking, on one tensor or several, in ordinary memory or in memory shared by the ranks of a node.
//
// Build:   cmake --build build/release --target 03_collectives
// Run:     mpirun -n 2 build/release/bin/03_collectives
// Expect:  rank 0: sum 3; step from 2.5 to 2.75, alike everywhere; overlapped 2; group 0.5 and 5
//          rank 1: sum 3; step from 2.5 to 2.75, alike everywhere; overlapped 2; group 0.5 and 5
//          refused: rank 0: sum is not defined for bool: use logical_or or logical_and, or convert to an integer type [and where]
#include <torch/torch.h>

#include <iostream>
#include <sstream>
#include <tw/comm.hpp>

double first(const at::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

/// Sums 1, 2, ... over the ranks, in place and in ordinary memory.
double sum_of_numbers(const tw::Communicator& comm) {
  const at::Tensor numbers = torch::full({3}, comm.rank() + 1.0);
  tw::allreduce(comm, numbers, tw::ReduceOp::sum);
  return first(numbers);
}

/// A step of gradient descent in shared memory: the calls are the same, and the data is not copied. Each rank averages the gradients of its own part
/// of the weights, updates that part, and sends it to all ranks. Together this is an all-reduce in two halves, with the update divided between the
/// ranks.
std::string sharded_step(const tw::Communicator& comm) {
  constexpr int64_t part = 1000;
  const at::Tensor weights = tw::shared_tensor(comm, {comm.size(), part}, at::kFloat);
  const at::Tensor gradients = tw::shared_tensor(comm, {comm.size(), part}, at::kFloat);
  weights.fill_(2.5);
  gradients.fill_(comm.rank() == 0 ? -0.5 * comm.size() : 0.0);  // their average is -0.5
  const double before = first(weights);

  const at::Tensor mine = weights[comm.rank()];  // a view of a shared tensor works too
  const at::Tensor gradient = torch::empty({part});
  tw::reduce_scatter(comm, gradients, gradient, tw::ReduceOp::average);
  mine.sub_(gradient, 0.5);
  const at::Tensor updated = torch::empty_like(weights);
  tw::allgather(comm, mine, updated);

  std::ostringstream text;
  text << "step from " << before << " to " << first(updated);
  return text.str() + (tw::compare_replicas(comm, updated).identical ? ", alike everywhere" : ", different");
}

/// Begins an operation, computes, and then waits for it. If no thread drives communication (see ProgressDriver), call progress() during long
/// computations.
double overlapped(const tw::Communicator& comm) {
  const at::Tensor ones = torch::ones({1 << 20});
  tw::Work work = tw::iallreduce(comm, ones, tw::ReduceOp::sum);
  at::Tensor rotation = torch::eye(64);
  for (int i = 0; i < 50; ++i) {
    rotation = rotation.mm(rotation);  // do not touch `ones` until wait() returns
    tw::progress(comm);
  }
  work.wait();
  return first(ones);
}

/// Several tensors of any shapes and dtypes in one operation.
std::pair<double, double> group(const tw::Communicator& comm) {
  const at::Tensor weight = torch::full({10, 10}, double{comm.rank() * 1.0});
  const at::Tensor bias = torch::full({10}, comm.rank() * 10.0, torch::kDouble);
  tw::allreduce(comm, std::vector<at::Tensor>{weight, bias}, tw::ReduceOp::average);
  return {first(weight), first(bias)};
}

/// A caller's mistake is a ContractError, thrown before any data is sent. Every rank throws, because otherwise the others would wait for this one.
std::string refused(const tw::Communicator& comm) {
  try {
    tw::allreduce(comm, torch::tensor(true), tw::ReduceOp::sum);
  } catch (const tw::ContractError& error) {
    return error.what();
  }
  return "nothing";
}

int main() {
  const tw::Environment mpi;
  const tw::Communicator comm = mpi.world().dup();
  const auto [weight, bias] = group(comm);
  std::ostringstream text;
  text << "rank " << comm.rank() << ": sum " << sum_of_numbers(comm) << "; " << sharded_step(comm) << "; overlapped " << overlapped(comm)
       << "; group " << weight << " and " << bias;
  for (const std::string& line : tw::gather_strings(comm, text.str(), tw::Rank(0))) std::cout << line << std::endl;  // printed on rank 0
  const std::string why = refused(comm);
  if (comm.rank() == 0) std::cout << "refused: " << why << std::endl;
}
