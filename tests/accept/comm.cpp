// SPDX-License-Identifier: Apache-2.0
// Collectives of 2^31 + 5 elements. Checks values at both ends and around 2^31, and their sum.
#include <torch/torch.h>

#include <iostream>
#include <tw/comm.hpp>

namespace {

constexpr int64_t count = (int64_t{1} << 31) + 5;

void expect(bool condition, const std::string& what) {
  if (!condition) tw::Environment::abort("wrong: " + what);
}

// Checks that every element is `value`, except the last, which is `last`.
void expect_content(const at::Tensor& tensor, int value, int last, const std::string& what) {
  for (const int64_t at : {int64_t{0}, (int64_t{1} << 31) - 1, int64_t{1} << 31, count - 2}) expect(tensor[at].item<int>() == value, what);
  expect(tensor[count - 1].item<int>() == last, what);
  int64_t sum = 0;
  for (const at::Tensor& piece : tensor.split(int64_t{1} << 24)) sum += piece.sum(at::kLong).item<int64_t>();  // sum() copies its input as int64
  expect(sum == value * (count - 1) + last, what);
}

void run(const tw::Communicator& comm, const std::string& backend) {
  tw::choose_backend(comm, backend);
  const int rank = comm.rank();
  const at::Tensor bytes = torch::full({count}, rank + 1, torch::kByte);
  bytes[count - 1].fill_(10 * (rank + 1));
  tw::allreduce(comm, bytes, tw::ReduceOp::sum);
  expect_content(bytes, 3, 30, "allreduce");
  if (rank == 1) bytes.fill_(9);
  tw::broadcast(comm, bytes, tw::Rank(1));
  expect_content(bytes, 9, 9, "broadcast");
  bytes.fill_(rank + 1);
  const at::Tensor all = torch::empty({2, count}, torch::kByte);
  tw::allgather(comm, bytes, all);
  for (const int of : {0, 1}) expect_content(all[of], of + 1, of + 1, "allgather");
  if (backend != "mpi") {  // Open MPI needs more than six minutes for 4 GiB of bytes
    tw::reduce_scatter(comm, all, bytes, tw::ReduceOp::sum);
    expect_content(bytes, 2 * (rank + 1), 2 * (rank + 1), "reduce_scatter");
  }
  bytes.fill_(2);
  if (rank == 0) {
    tw::send(comm, bytes, tw::Rank(1));
  } else {
    tw::recv(comm, bytes, tw::Rank(0));
    expect_content(bytes, 2, 2, "send and recv");
  }
  if (rank == 0) std::cout << backend << ": " << count << " elements, all right" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv, {.audit = false});
  for (const char* backend : {"shared_memory", "mpi"}) run(mpi.world().dup(), backend);
}
