// SPDX-License-Identifier: Apache-2.0
#include <tw/search/search.hpp>

#include <algorithm>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/state/directory_lock.hpp>

#include "description.hpp"
#include "end_marks.hpp"
#include "space_lines.hpp"
#include "worker.hpp"

namespace tw {

template <>
struct Fields<search::SearchResult> {
  using R = search::SearchResult;
  static constexpr auto all =
      std::tuple(&R::best, &R::front, &R::complete, &R::pruned, &R::failed, &R::infeasible, &R::seconds, &R::busy, &R::first_failure);
};

}  // namespace tw

namespace tw::search {
namespace {

SearchOptions checked(const Communicator& comm, const Space& space, const Objective& objective, const SearchOptions& options) {
  std::vector<std::string> lines = lines_of(space);
  lines.emplace_back(objective ? "an objective" : "no objective");
  for (std::string& line : value_lines(options)) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm, "a search's space and options", lines);
  options.validate(comm.size());
  if (const auto* training = std::get_if<PopulationTrainingOptions>(&options.scheduler)) training->validate(space);
  TW_EXPECTS(objective != nullptr, "a search needs an objective, but the function is empty");
  SearchOptions own = options;
  if (own.journal.empty()) return own;
  own.journal = absolute_path(own.journal);  // objectives may change the working directory
  (void)description_of(space, own);
  return own;
}

}  // namespace

class Search::Impl {
 public:
  Impl(const Communicator& comm, Space space, Objective objective, const SearchOptions& options)
      : comm_(comm.dup()),
        space_(std::move(space)),
        objective_(std::move(objective)),
        options_(checked(comm_, space_, objective_, options)),
        layout_(comm_.size(), options_),
        members_(comm_.split(layout_.worker_of_rank(comm_.rank()), comm_.rank())),
        leaders_(comm_.split(members_.rank() == 0 ? 0 : 1, comm_.rank())) {
    if (!options_.journal.empty()) lock_.emplace(comm_, options_.journal);
    revoke_on_exception(comm_, [&] {
      evaluator_.emplace(members_, space_, objective_, options_.seed, std::max<size_t>(1, options_.objectives.size()));
      if (std::holds_alternative<PopulationTrainingOptions>(options_.scheduler)) evaluator_->connect(comm_, layout_);
      if (evaluator_->leads()) worker_.emplace(leaders_, *evaluator_, space_, options_, layout_);
      comm_.barrier();
    });
    if (options_.journal.empty()) return;
    on_all_ranks(comm_, "writing the description of a search", [&] {
      if (comm_.rank() != 0) return;
      remove_end_marks(options_.journal);  // the journal now has their information
      write_description(options_.journal, space_, options_);
    });
  }

  SearchResult run() {
    TW_EXPECTS(!ran_, "run() was called twice; to continue a search, construct another Search with its journal");
    ran_ = true;
    const EndMark mark(options_.journal, layout_.worker_of_rank(comm_.rank()), members_.rank(), members_.size());
    return revoke_on_exception(comm_, [&] {
      SearchResult result;
      if (worker_) {
        worker_->run();
        evaluator_->dismiss();
        result = worker_->result();
      } else {
        evaluator_->serve();
      }
      return broadcast_object(members_, result, Rank(0));
    });
  }

  const Space& space() const noexcept { return space_; }
  const Population& population() const noexcept { return worker_ ? worker_->population() : nobody_; }

 private:
  Communicator comm_;
  Space space_;
  Objective objective_;
  SearchOptions options_;
  Layout layout_;
  Communicator members_;  // ranks of this rank's worker
  Communicator leaders_;  // the first ranks of all workers; on other ranks, all other ranks, which is not used
  std::optional<DirectoryLock> lock_;
  std::optional<Evaluator> evaluator_;
  std::optional<Worker> worker_;  // on a worker's first rank
  Population nobody_;
  bool ran_ = false;
};

Search::Search(const Communicator& comm, Space space, Objective objective, const SearchOptions& options)
    : impl_(std::make_unique<Impl>(comm, std::move(space), std::move(objective), options)) {}
Search::~Search() = default;
SearchResult Search::run() { return impl_->run(); }
const Space& Search::space() const noexcept { return impl_->space(); }
const Population& Search::population() const noexcept { return impl_->population(); }

}  // namespace tw::search
