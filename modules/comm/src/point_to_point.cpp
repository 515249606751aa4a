// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>

#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "group.hpp"
#include "operands.hpp"

namespace tw {
namespace {

Call make_call(Collective collective, Rank peer, const at::Tensor& tensor) {
  TW_EXPECTS(tensor.defined(), name_of(collective), " was given an undefined tensor");
  return {.collective = collective, .type = element_type(tensor.scalar_type()), .peer = peer, .count = tensor.numel()};
}

mpi::Buffer buffer_of(const Call& call, std::span<const std::byte> memory) { return {const_cast<std::byte*>(memory.data()), call.count, call.type}; }

mpi::StartQueue::Start sending(const mpi::Buffer& buffer, Rank to, Tag tag) {
  return [=](const Communicator& comm) { return mpi::send_transfer(comm, buffer, to, tag); };
}

mpi::StartQueue::Start receiving(const mpi::Buffer& buffer, Rank from, Tag tag) {
  return [=](const Communicator& comm) { return mpi::receive_transfer(comm, buffer, from, tag); };
}

Work begin(const Communicator& comm, const Call& call, mpi::StartQueue::Start start_transfer, std::shared_ptr<Operands> operands) {
  auto transfer = mpi::message_queue(comm).start(comm, std::move(start_transfer), operands->ready());
  return start(comm, call, std::move(transfer), std::move(operands));
}

}  // namespace

Work isend(const Communicator& comm, const at::Tensor& tensor, Rank to, Tag tag) {
  const Call call = make_call(Collective::send, to, tensor);
  auto operands = std::make_shared<Operands>(Collective::send, comm.audited(), passage_of_messages(comm, tensor));
  const mpi::Buffer buffer = buffer_of(call, operands->in(tensor));
  return begin(comm, call, sending(buffer, to, tag), std::move(operands));
}

Work irecv(const Communicator& comm, const at::Tensor& tensor, Rank from, Tag tag) {
  const Call call = make_call(Collective::receive, from, tensor);
  auto operands = std::make_shared<Operands>(Collective::receive, comm.audited(), passage_of_messages(comm, tensor));
  const mpi::Buffer buffer = buffer_of(call, operands->out(tensor));
  return begin(comm, call, receiving(buffer, from, tag), std::move(operands));
}

Work isendrecv(const Communicator& comm, const at::Tensor& outgoing, Rank to, const at::Tensor& incoming, Rank from, Tag tag) {
  const Call received = make_call(Collective::receive, from, incoming);
  const Call sent = make_call(Collective::send, to, outgoing);
  auto operands = std::make_shared<Operands>(Collective::receive, comm.audited(), passage_of_messages(comm, incoming));
  const mpi::Buffer in = buffer_of(received, operands->out(incoming));
  const mpi::Buffer out = buffer_of(sent, operands->in(outgoing));
  mpi::expect_rank(comm, to);  // otherwise a receive that has started would take the next message
  const auto both = [receive = receiving(in, from, tag), send = sending(out, to, tag)](const Communicator& of) {
    auto group = std::make_unique<Group>();
    group->add([&] { return receive(of); });
    group->add([&] { return send(of); });
    return group;
  };
  return begin(comm, received, both, std::move(operands));
}

void send(const Communicator& comm, const at::Tensor& tensor, Rank to, Tag tag) { isend(comm, tensor, to, tag).wait(); }
void recv(const Communicator& comm, const at::Tensor& tensor, Rank from, Tag tag) { irecv(comm, tensor, from, tag).wait(); }
void sendrecv(const Communicator& comm, const at::Tensor& outgoing, Rank to, const at::Tensor& incoming, Rank from, Tag tag) {
  isendrecv(comm, outgoing, to, incoming, from, tag).wait();
}

}  // namespace tw
