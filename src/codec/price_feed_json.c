/* Prices in the JSON of three clouds: one list of rows each. */
#include "base/mem.h"
#include "codec/price_feed_rows.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static bool has(const char *text, const char *part)
{
    return text != NULL && strstr(text, part) != NULL;
}

/* ---- AWS: spotPriceHistorySet; prices are texts, changes and not samples ---- */

static void read_aws(struct price_feed *feed, uint32_t number, const json_t *row)
{
    const char *product = text_of(row, "ProductDescription"), *price = text_of(row, "SpotPrice");
    int64_t usd_micros;
    if (product != NULL && !has(product, "Linux/UNIX")) {
        feed_pass(feed);
        return;
    }
    if (price == NULL || !feed_price(price, &usd_micros)) {
        feed->rows++;
        feed_fault(feed, number, "SpotPrice is not a price: \"%s\"", price == NULL ? "" : price);
        return;
    }
    feed_add(feed,
             &(struct feed_row){.number = number,
                                .zone = text_of(row, "AvailabilityZone"),
                                .instance = text_of(row, "InstanceType"),
                                .time = text_of(row, "Timestamp"),
                                .is_spot = true},
             usd_micros);
}

/* ---- Azure: Items; a spot row says so in its names ---- */

static bool is_other_azure(const json_t *row)
{
    const char *type = text_of(row, "type"), *unit = text_of(row, "unitOfMeasure");
    return has(text_of(row, "productName"), "Windows") ||
           has(text_of(row, "skuName"), "Low Priority") ||
           (type != NULL && strcmp(type, "Consumption") != 0) ||
           (unit != NULL && strcmp(unit, "1 Hour") != 0);
}

static void read_azure(struct price_feed *feed, uint32_t number, const json_t *row)
{
    const char *currency = text_of(row, "currencyCode");
    const json_t *price = json_object_get(row, "retailPrice");
    if (is_other_azure(row)) {
        feed_pass(feed);
        return;
    }
    double usd = json_is_number(price) ? json_number_value(price) : NAN;
    if (!(fabs(usd) < 1e6) || (currency != NULL && strcmp(currency, "USD") != 0)) {
        feed->rows++;
        feed_fault(feed, number, "retailPrice is not a price in USD");
        return;
    }
    feed_add(feed,
             &(struct feed_row){.number = number,
                                .zone = text_of(row, "armRegionName"),
                                .instance = text_of(row, "armSkuName"),
                                .time = text_of(row, "effectiveStartDate"),
                                .is_spot = has(text_of(row, "skuName"), "Spot") ||
                                           has(text_of(row, "meterName"), "Spot")},
             (int64_t)(usd * 1e6 + 0.5));
}

/* ---- Google: skus; a price of nanos a unit, the same in several regions ---- */

static bool read_nanos(const json_t *expression, int64_t *ret_usd_micros)
{
    const json_t *rates = json_object_get(expression, "tieredRates");
    const json_t *rate = json_array_get(rates, json_array_size(rates) - 1); /* the dearest tier */
    const json_t *price = json_object_get(rate, "unitPrice"),
                 *nanos = json_object_get(price, "nanos");
    const json_t *units = json_object_get(price, "units");
    int64_t usd_micros = 0;
    if (price == NULL || (nanos != NULL && !json_is_integer(nanos))) return false;
    if (json_is_string(units) && !feed_price(json_string_value(units), &usd_micros)) return false;
    json_int_t more = json_integer_value(nanos);
    if (more < 0 || more >= 1000000000) return false;
    *ret_usd_micros = usd_micros + (more + 500) / 1000;
    return true;
}

static void read_gcp(struct price_feed *feed, uint32_t number, const json_t *row)
{
    const json_t *info = json_array_get(json_object_get(row, "pricingInfo"), 0);
    const json_t *expression = json_object_get(info, "pricingExpression");
    const char *unit = text_of(expression, "usageUnit"),
               *usage = text_of(json_object_get(row, "category"), "usageType");
    const json_t *regions = json_object_get(row, "serviceRegions"), *region;
    size_t i;
    int64_t usd_micros;
    bool is_spot = has(usage, "Preemptible") || has(usage, "Spot");
    if ((unit != NULL && strcmp(unit, "h") != 0) ||
        (usage != NULL && !is_spot && !has(usage, "OnDemand"))) {
        feed_pass(feed);
        return;
    }
    if (!read_nanos(expression, &usd_micros) || json_array_size(regions) == 0) {
        feed->rows++;
        feed_fault(feed, number, "no price in pricingInfo, or no serviceRegions");
        return;
    }
    json_array_foreach(regions, i, region)
        feed_add(feed,
                 &(struct feed_row){.number = number,
                                    .zone = json_string_value(region),
                                    .instance = text_of(row, "description"),
                                    .time = text_of(info, "effectiveTime"),
                                    .is_spot = is_spot},
                 usd_micros);
}

/* ---- the document ---- */

static const struct reader {
    const char *key;
    enum feed_format format;
    void (*read)(struct price_feed *feed, uint32_t number, const json_t *row);
} readers[] = {{"SpotPriceHistory", FEED_AWS, read_aws},
               {"Items", FEED_AZURE, read_azure},
               {"skus", FEED_GCP, read_gcp}};

static void read_rows(struct price_feed *feed, const struct reader *reader, const json_t *rows)
{
    size_t i;
    json_t *row;
    feed->format = reader->format;
    json_array_foreach(rows, i, row)
    {
        if (json_is_object(row)) {
            reader->read(feed, (uint32_t)i + 1, row);
            continue;
        }
        feed->rows++;
        feed_fault(feed, (uint32_t)i + 1, "not an object");
    }
}

bool feed_read_json(const char *text, size_t bytes, struct price_feed *feed,
                    struct error *ret_error)
{
    json_error_t error;
    uint64_t failures = mem_failures();
    json_t *root = json_loadb(text, bytes, 0, &error);
    if (mem_failures() != failures) {
        json_decref(root);
        return error_set(ret_error, "out of memory for the prices");
    }
    if (root == NULL)
        return error_set(ret_error, "line %d column %d: %s", error.line, error.column, error.text);
    for (uint32_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        const json_t *rows = json_object_get(root, readers[i].key);
        if (!json_is_array(rows) || json_array_size(rows) > FEED_ROWS_MAX) continue;
        read_rows(feed, &readers[i], rows);
        json_decref(root);
        return true;
    }
    json_decref(root);
    return error_set(ret_error,
                     "a JSON object with a list SpotPriceHistory (AWS), Items (Azure) or "
                     "skus (Google) is expected");
}
