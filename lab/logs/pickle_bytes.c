/* The bytes of a pickle, piece by piece; see pickle_bytes.h. */
#include "lab/logs/pickle_bytes.h"

#include "lab/logs/log.h"

int pickle_bytes_look(struct pickle_bytes *bytes, size_t least)
{
    size_t length;
    log_source_skip(bytes->source, (size_t)(bytes->at - bytes->piece));
    bytes->at = bytes->piece; /* should peeking fail */
    bytes->piece_place = log_source_place(bytes->source) + 1;
    int status = log_source_peek(bytes->source, least, &bytes->piece, &length, bytes->problem);
    if (status != LOG_FINE)
        return status;
    bytes->at = bytes->piece;
    bytes->end = bytes->piece + length;
    return LOG_FINE;
}

int pickle_bytes_cut_off(struct pickle_bytes *bytes)
{
    bytes->at = bytes->end;
    return log_bad(bytes->problem, true, pickle_bytes_place(bytes), "the pickle is cut off here");
}

int pickle_bytes_want(struct pickle_bytes *bytes, size_t count)
{
    if ((size_t)(bytes->end - bytes->at) >= count)
        return LOG_FINE;
    int status = pickle_bytes_look(bytes, count);
    if (status == LOG_FINE && (size_t)(bytes->end - bytes->at) < count)
        return pickle_bytes_cut_off(bytes);
    return status;
}

int pickle_bytes_pass(struct pickle_bytes *bytes, uint64_t count)
{
    while (count > 0) {
        int status = pickle_bytes_want(bytes, 1);
        if (status != LOG_FINE)
            return status;
        size_t there = (size_t)(bytes->end - bytes->at);
        size_t some = count < there ? (size_t)count : there;
        bytes->at += some;
        count -= some;
    }
    return LOG_FINE;
}
