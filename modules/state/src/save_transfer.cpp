// SPDX-License-Identifier: Apache-2.0
#include "save_transfer.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/library.hpp>

#include "step_directory.hpp"

namespace tw {
namespace {

void write_part(const SaveJob& job, int64_t rank, const std::stop_token& cancelled, StoredFile& file) {
  job.arrive();
  const std::filesystem::path partial = partial_directory(job.directory, job.index.step);
  std::filesystem::create_directories(partial);
  file = {job.bytes, content_hash({job.data, static_cast<size_t>(job.bytes)})};
  write_synced(partial / file_name(rank), job.data, job.bytes, cancelled);
}

void commit(const SaveJob& job, const std::stop_token& cancelled) {
  publish(job.directory, job.index, cancelled);
  try {
    prune(job.directory, job.index.step, job.keep);
  } catch (const std::exception& error) {
    log_warning("an old checkpoint cannot be removed: ", error.what());  // does not affect the new one
  }
}

}  // namespace

void Verdict::set_failure(const std::string& text) {
  const size_t length = std::min(text.size(), failure.size() - 1);
  std::memcpy(failure.data(), text.data(), length);
  failure[length] = '\0';
}

SaveTransfer::SaveTransfer(const Communicator& comm, std::shared_ptr<Writer> writer, SaveJob job, std::shared_ptr<SaveResult> result)
    : comm_(mpi::share(comm)),
      writer_(std::move(writer)),
      job_(std::make_shared<SaveJob>(std::move(job))),
      result_(std::move(result)),
      written_(std::make_shared<StoredFile>()),
      all_(static_cast<size_t>(comm.size())),
      sizes_(all_.size(), static_cast<int64_t>(sizeof(Verdict))) {
  writer_->run([job = job_, written = written_, rank = int64_t{comm.rank()}, cancelled = writer_->cancelled()] {
    write_part(*job, rank, cancelled, *written);
  });
}

bool SaveTransfer::advance() {
  switch (phase_) {
    case Phase::writing:
      if (!writer_->idle()) return false;
      begin_gathering();
      return false;
    case Phase::gathering:
      if (!inner_->advance()) return false;
      return !begin_committing();
    case Phase::committing:
      if (!writer_->idle()) return false;
      begin_announcing();
      return false;
    case Phase::announcing:
      if (!inner_->advance()) return false;
      result_->failure = mine_.failure.data();
      return true;
  }
  return true;
}

void SaveTransfer::begin_gathering() {
  mine_.file = *written_;
  mine_.set_failure(writer_->failure());
  inner_ = mpi::allgather_transfer(comm_, std::as_bytes(std::span(&mine_, 1)), std::as_writable_bytes(std::span(all_)).data(), sizes_);
  phase_ = Phase::gathering;
}

bool SaveTransfer::begin_committing() {
  for (size_t rank = 0; rank < all_.size(); ++rank) {
    if (!all_[rank].failed()) continue;
    if (!result_->failure.empty()) result_->failure += "; ";
    result_->failure += concat("rank ", rank, ": ", all_[rank].failure.data());
  }
  const bool first = comm_.rank() == 0;
  if (!result_->failure.empty()) {
    if (first) writer_->run([job = job_] { std::filesystem::remove_all(partial_directory(job->directory, job->index.step)); });
    return false;
  }
  mine_ = Verdict();
  if (!first) {
    begin_announcing();
    return true;
  }
  for (const Verdict& verdict : all_) job_->index.files.push_back(verdict.file);
  writer_->run([job = job_, cancelled = writer_->cancelled()] { commit(*job, cancelled); });
  phase_ = Phase::committing;
  return true;
}

void SaveTransfer::begin_announcing() {
  if (comm_.rank() == 0) mine_.set_failure(writer_->failure());
  inner_ = mpi::broadcast_transfer(comm_, {&mine_, static_cast<int64_t>(sizeof mine_), ElementType::uint8}, Rank(0));
  phase_ = Phase::announcing;
}

}  // namespace tw
