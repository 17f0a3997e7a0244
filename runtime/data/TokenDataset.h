//===- TokenDataset.h - Sequences to train and to validate on ---*- C++ -*-===//
//
// Cuts token streams into sequences. Sequence k of a stream has the inputs
// tokens[k T .. k T + T) and the labels tokens[k T + 1 .. k T + T + 1), so that
// every token but a stream's first is predicted once. The last sequence of a
// stream may be partial: its inputs are padded, its labels there are -100.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DATA_TOKENDATASET_H
#define CIUIC_RUNTIME_DATA_TOKENDATASET_H

#include "runtime/base/Status.h"
#include "runtime/data/TextFiles.h"
#include "runtime/data/TokenFile.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ciuic::rt {

/// A label that takes no part in the loss.
constexpr int32_t ignoredLabel = -100;

/// Which sequences: those trained on, or those held back.
enum class Split { Train, Validation };

/// Immutable after open(): reading is safe from many threads.
class TokenDataset {
public:
  struct Options {
    int64_t sequenceLength = 0; ///< T
    int64_t vocabularySize = 0; ///< The model's.
    uint64_t seed = 0;          ///< Of the order of training.
    double validationShare = 0; ///< In [0, 1): of the sequences.
    bool shuffle = true;        ///< Else every epoch is in the data's order.
  };

  /// Opens text files, folders of them, or token files; not both kinds.
  /// All text is one stream, each token file is one. Code::Invalid for paths
  /// without data, for less than one sequence of T + 1 tokens, for a named
  /// file that is no text, for a vocabulary too small for the tokens (files
  /// up to 1 GiB are checked here, larger ones as they are read).
  static Result<TokenDataset> open(const std::vector<std::string> &paths,
                                   const Options &options);

  const Options &options() const { return settings; }
  const FileCounts &counts() const { return fileCounts; }
  uint64_t tokenCount() const { return tokens; }
  bool isText() const { return tokenFiles.empty(); }

  /// The sequences of a split; the same ones are held back whatever the seed.
  uint64_t sequences(Split split) const {
    return split == Split::Train ? total - heldBack : heldBack;
  }

  /// The sequence at `index` of the given pass over a split. Training order
  /// is a permutation drawn from (seed, epoch), or the data's order without
  /// those held back; validation order is fixed.
  uint64_t sequenceAt(Split split, uint64_t epoch, uint64_t index) const;

  /// Labels of a sequence that are not ignored: T, but for partial ones.
  int64_t labelCount(uint64_t sequence) const;

  /// Fills inputs[T] and labels[T] with a sequence.
  Status read(uint64_t sequence, int32_t *inputs, int32_t *labels) const;

  /// What stands in padded inputs.
  int32_t padToken() const { return isText() ? ByteVocabulary::pad : 0; }

private:
  TokenDataset() = default;
  Status addText(const std::string &path, std::span<const std::byte> bytes,
                 bool named);
  Status addTokenFile(const std::string &path);
  Status cut();
  /// The stream of a sequence and the sequence's first token in it.
  std::pair<size_t, uint64_t> locate(uint64_t sequence) const;
  uint64_t streamTokens(size_t stream) const;

  Options settings;
  FileCounts fileCounts;
  std::vector<uint16_t> text;
  std::vector<TokenFile> tokenFiles;
  /// firstSequence[i]: number of the first sequence of stream i; one more
  /// entry holds the total.
  std::vector<uint64_t> firstSequence;
  uint64_t tokens = 0, total = 0, heldBack = 0;
  /// Without shuffling: entry i is how many sequences to train on come before
  /// the i-th one held back, in the data's order.
  std::vector<uint64_t> trainedBefore;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DATA_TOKENDATASET_H
